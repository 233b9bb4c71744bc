"""The state of one run, shared by all its operations: snapshots by epoch, locks, journal, what was shown."""

from __future__ import annotations

import atexit
import contextlib
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

from gevent.lock import RLock
from pyinfra.api.host import Host
from pyinfra.api.state import State

from provision.assign.handover import Handover
from provision.host.reboot import FOLLOWS_A_BOOT
from provision.host.swap import STOP
from provision.hub.controller import hide_token
from provision.migrate.standing import Migrating
from provision.plan import PHASES, Item, Plan
from provision.planner import Observed, Wanted, plan_machine, restrict
from provision.printable import say_on_stderr
from provision.report.write import tell as tell_report
from provision.run import earlier, host_journal, lock
from provision.run.errors import EXIT_DONE, EXIT_ERROR, HostChanged, RebootPending, RunError
from provision.run.exchange import Exchange
from provision.run.hub import Asked
from provision.run.journal import Journal, new_run_id
from provision.run.locks import Locks
from provision.run.looking import look
from provision.run.told import Operations
from provision.run.tried import Tried
from provision.run.wanted import wanted_for
from provision.spec import Machine


class Session:
    """One run. It belongs to a pyinfra State; ``Session.of(state)`` finds or makes it. ``report``: it is written."""

    def __init__(
        self,
        state: State,
        *,
        phases: Sequence[str] = PHASES,
        reason: str = "pyinfra",
        reboot: bool = False,
        say: Callable[[str], None] = say_on_stderr,
        migrating: Migrating | None = None,
        within: Session | None = None,
        report: bool = True,
    ) -> None:
        hide_token()
        self.state = state
        self.migrating = migrating or Migrating()
        self._within = within
        self.facts: dict[str, Any] = {}
        self.id: str = within.id if within else self.migrating.run or new_run_id()
        self.phases = tuple(phases)
        self.reason = reason
        self.reboot = reboot
        self.say = say
        self.usage: RunError | None = None
        self.problems: list[RunError] = []
        self.pending: dict[str, RebootPending] = {}
        self.failed_by: dict[str, RunError] = {}
        self.ended: int | None = None
        self.changed: list[Item] = []
        self.tried = Tried()
        self._journal: Journal | None = None
        self._report = report
        self._locks: Locks = within._locks if within else Locks()
        self._lost: dict[str, RunError] = {}
        self._said: set[str] = set()
        self._observed: dict[str, Observed] = {}
        self._wanted: dict[str, Wanted] = {}
        self._shown: dict[str, frozenset[str]] = {}
        self._rebooted: set[str] = set()
        self.exchange = Exchange()
        self.hub = Asked()
        self.handovers: dict[str, Handover] = {}
        # A machine and its guests are worked on by several greenlets at once; one of them looks, the others wait.
        self._one_at_a_time: dict[str, RLock] = defaultdict(RLock)
        state.add_callback_handler(Operations(self))  # type: ignore[no-untyped-call]

    @classmethod
    def of(cls, state: State) -> Session:
        session = getattr(state, "kpro_session", None)
        if session is None:
            # pyinfra's own command has no place to end a session: it ends with the process.
            session = cls(state)
            state.kpro_session = session  # type: ignore[attr-defined]
            atexit.register(session.close)
        return session

    @property
    def journal(self) -> Journal:
        if self._within is not None:
            return self._within.journal
        if self._journal is None:
            self._journal = Journal(self.id)
            self._journal.begin(self.reason, phases=self.phases, **self.facts)
        return self._journal

    def untouched(self) -> bool:
        """Has nothing been begun? Before anything is touched there is a journal."""
        return self._within is None and self._journal is None

    def open_journal(self) -> None:
        """Before anything is touched. Raises RunError when it cannot be written."""
        _ = self.journal

    def tell_journal(self, event: str, **facts: Any) -> None:
        """Writes what happened already: a journal that cannot be written does not keep it from being dealt with."""
        with contextlib.suppress(RunError):
            self.journal.write(event, **facts)

    def tell_end(self, why: str) -> None:
        """Why the run ends early, where it has a journal: one that only looked gets none by that."""
        if self._journal is not None:
            self.tell_journal("failed", why=why)

    def wanted(self, machine: Machine) -> Wanted:
        if machine.name not in self._wanted:
            self._wanted[machine.name] = replace(
                wanted_for(machine), answers=self.hub.answers, migrating=self.migrating
            )
        return self._wanted[machine.name]

    def host(self, name: str) -> Host:
        """A connected pyinfra host. Raises RunError when it cannot be reached."""
        host = self.state.inventory.get_host(name)
        if not host.connected:
            host.connect()
        if not host.connected:
            raise RunError(f"{name} cannot be reached")
        return host

    def hosts_in_limit(self, machine: Machine) -> list[str]:
        names = [machine.host_name, *(machine.guest_host_name(guest) for guest in machine.guests)]
        return [name for name in names if self.state.is_host_in_limit(self.state.inventory.get_host(name))]

    def observed(self, machine: Machine) -> Observed:
        """What the machine looks like in this epoch: read once, and again after a change."""
        with self._one_at_a_time[machine.name]:
            if machine.name not in self._observed:
                self._observed[machine.name] = look(self, machine)
            return self._observed[machine.name]

    def exchanging(self, machine: Machine) -> bool:
        """Is an exchange of the driver under way, which must not be left half-way?"""
        return self.exchange.under_way(machine, self.changed)

    def new_epoch(self, machine: Machine) -> None:
        """Something changed on the machine: what was seen is no longer trusted."""
        self._observed.pop(machine.name, None)

    def plan(self, machine: Machine, without: Collection[str] = ()) -> Plan:
        """What this run was asked for of the machine's plan. ``without``: guests of which nothing is decided."""
        handover = self.handovers.get(machine.name)
        while True:
            plan = plan_machine(machine, self.wanted(machine), self.observed(machine).but(without), handover)
            plan = restrict(plan, self.phases, self.hosts_in_limit(machine))
            if not self.hub.ask(plan):
                return plan

    def show(self, machine: Machine) -> Plan:
        """The plan. The first one of a machine is remembered as what the operator was shown."""
        plan = self.plan(machine)
        self._shown.setdefault(machine.name, plan.ids)
        return plan

    def first_word(self, machine: Machine) -> bool:
        """True once for each machine: it and its guests would say the same."""
        new = machine.name not in self._said
        self._said.add(machine.name)
        return new and self.reason == "pyinfra"

    def was_shown(self, plans: Sequence[Plan]) -> None:
        """Plans that the operator saw, also before this session began; the journal has them then."""
        self._shown |= {plan.machine: plan.ids for plan in plans}
        for plan in plans:
            self.tell_journal("plan", **plan.as_dict())

    def check_against_shown(self, machine: Machine, plan: Plan) -> None:
        """Raises HostChanged when the plan has become more than what was shown."""
        shown = self._shown.get(machine.name)
        new = plan.beyond(shown) if shown is not None else ()
        if machine.name in self._rebooted:
            new = tuple(item for item in new if item.kind not in FOLLOWS_A_BOOT)
        if new:
            raise HostChanged(
                f"{machine.name} changed under us: {'; '.join(item.text for item in new)} was not in the plan "
                "that was shown. Look at the new plan with: provision plan"
            )

    def take_lock(self, machine: Machine) -> None:
        """Once per run and machine; what was seen before is looked at again."""
        with self._one_at_a_time[machine.name]:
            if self._locks.has(machine.name):
                return
            if machine.name in self._lost:
                raise self._lost[machine.name]
            before = self._observed.get(machine.name)
            owner = lock.Owner.here(self.id, self.reason)
            try:
                self._locks.take(machine.name, self.host(machine.host_name), owner, self.say)
            except RunError as error:
                # The machine and its guests ask for one lock: the answer to one is the answer to all.
                self._lost[machine.name] = error
                raise
            self.journal.write("locked", machine=machine.name, owner=owner.owner)
            self.new_epoch(machine)
            earlier.tell(self, machine, before)

    def rebooted(self, machine: Machine) -> None:
        """The machine has booted: its lock is taken anew, nothing that was seen holds. Raises Locked."""
        with self._one_at_a_time[machine.name]:
            self._locks.let_go(machine.name)
            self._rebooted.add(machine.name)
            self.take_lock(machine)

    def lock_is_lost(self, machine: Machine) -> None:
        """The machine did not come back: there is no lock to give back at the end."""
        self._locks.forget(machine.name)

    def keep_lock(self, machine: Machine) -> None:
        """The machine's lock is held: taken, or taken anew where the way to it broke. Raises RunError."""
        if self._locks.has(machine.name) and not self._locks.alive(machine.name):
            self._locks.let_go(machine.name)
        self.take_lock(machine)

    def give_back(self, machine: Machine) -> None:
        """Others may have the machine; before the way to it is closed."""
        self._locks.let_go(machine.name)

    def belong_to(self, migrating: Migrating) -> None:
        """All that comes is a part of this migration, under its id. Nothing may have been written before."""
        self.migrating = migrating
        self.id = self._within.id if self._within else migrating.run
        self._wanted.clear()

    def check_lock(self, machine: Machine) -> None:
        """Raises RunError when the lock was lost, because the way to the machine broke."""
        if not self._locks.alive(machine.name):
            raise RunError(
                f"the lock of {machine.name} is gone (the connection broke?): nothing more is changed"
            )

    def begin(self, machine: Machine, item: Item) -> None:
        """Right before an act: the lock still holds, and the journals know what is about to happen."""
        self.check_lock(machine)
        if item.kind == STOP:
            self.exchange.stops(machine, item, self.observed(machine).guests)
        self.new_epoch(machine)
        self._note(machine, "begin", item)

    def end(self, machine: Machine, item: Item, error: str | None = None) -> None:
        """Right after an act: what was seen before it is no longer trusted."""
        self.new_epoch(machine)
        self.changed.append(item)
        if error is None:
            self._note(machine, "done", item)
            return
        try:
            self._note(machine, "failed", item, why=error)
        except (RunError, OSError) as also:
            # What went wrong may have taken the machine with it; the reason must be told all the same.
            self.say(f"{machine.name}: its own journal does not have this: {also}")

    def _note(self, machine: Machine, event: str, item: Item, **facts: str) -> None:
        line = self.journal.write(event, **item.as_dict(), **facts)
        host_journal.append(self.host(machine.host_name), self.id, line)

    def close(self) -> None:
        """Gives the machines back. A machine that cannot be reached any more frees its lock by itself."""
        if self._within is not None:
            return
        self._locks.release_all(self.say)
        if self._journal is not None:
            failed = sorted(host.name for host in self.state.failed_hosts)
            try:
                changed = [item.id for item in self.changed]
                self._journal.write("end", failed=failed, changed=changed, exit=self.exit_code)
            except RunError as error:
                self.say(str(error))
            self._journal.close()
            self._journal = None
            if self._report:
                tell_report(self.id, self.say)

    @property
    def exit_code(self) -> int:
        """``ended`` where the command said it, the first problem's code, else 1 for a failed host; pending last."""
        if self.ended is not None:
            return self.ended
        if self.problems:
            wrong = [problem for problem in self.problems if not isinstance(problem, RebootPending)]
            return (wrong or self.problems)[0].exit_code
        return EXIT_ERROR if self.state.failed_hosts else EXIT_DONE
