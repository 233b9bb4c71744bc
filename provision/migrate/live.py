"""The two ends of a migration on real hosts: pyinfra's connections, the machines' locks, the chain on the target."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from provision.acts.shell import BUSY_PREFIX
from provision.host import reconnect, transport
from provision.host.transport import Completed, TransportError
from provision.migrate.ends import End
from provision.migrate.standing import Migrating
from provision.plan import Plan
from provision.planner import Observed, Wanted
from provision.run import runner
from provision.run.errors import Refused, RunError, Unreachable
from provision.run.runner import Run
from provision.run.session import Session
from provision.spec import Guest, Machine, Service

Say = Callable[[str], None]


class Live:
    """One end. What breaks the connection is told by a TransportError, and the next call connects anew."""

    def __init__(self, run: Run, end: End) -> None:
        self._run = run
        self._end = end
        self._held = False

    @property
    def session(self) -> Session:
        return self._run.session

    @property
    def name(self) -> str:
        return self._end.name

    @property
    def machine(self) -> Machine:
        return self._end.machine

    @property
    def guest(self) -> Guest:
        return self._end.guest

    @property
    def service(self) -> Service:
        return self._end.service

    def host(self, script: str, *, stdin: bytes = b"", timeout: float | None = 60) -> Completed:
        # A run that comes after this one waits for what it left running on the machine.
        return self._asked(
            self.machine.host_name, (BUSY_PREFIX if self._held else "") + script, stdin, timeout
        )

    def inside(self, script: str, *, stdin: bytes = b"", timeout: float | None = 60) -> Completed:
        return self._asked(self.machine.guest_host_name(self.guest), script, stdin, timeout)

    def _asked(self, name: str, script: str, stdin: bytes, timeout: float | None) -> Completed:
        metal = self.session.state.inventory.get_host(self.machine.host_name)
        try:
            self.session.host(self.machine.host_name)
            return transport.run(self.session.host(name), script, stdin=stdin, timeout=timeout)
        except RunError as error:
            raise TransportError(str(error)) from error
        except transport.CommandTimeout:
            raise
        except TransportError:
            if self.machine.ssh is not None and not reconnect.alive(metal):
                reconnect.drop(metal)
            raise

    def hold(self) -> None:
        self.session.keep_lock(self.machine)
        self._held = True
        self.session.state.is_executing = True

    def give_back(self) -> None:
        """The machine is free for others again."""
        self.session.give_back(self.machine)

    @property
    def wanted(self) -> Wanted:
        return self.session.wanted(self.machine)

    def observed(self) -> Observed:
        """What it looks like: read once, and again after its lock was taken."""
        return self.session.observed(self.machine)


class LiveTarget(Live):
    """The end that the chain is carried out on. ``arriving``: model folders that the copy brings."""

    def __init__(self, run: Run, end: End, inventory: Path, say: Say, reboot: bool) -> None:
        super().__init__(run, end)
        self._inventory = inventory
        self._say = say
        self._reboot = reboot
        self.arriving: frozenset[str] = frozenset()

    def plan(self, phases: Sequence[str]) -> Plan:
        with self._chain(phases) as run:
            found: Plan = run.plans()[0]
            return found

    def apply(self, phases: Sequence[str]) -> None:
        with self._chain(phases) as run:
            plan = run.plans()[0]
            if plan.refusals:
                raise Refused(plan.refusals)
            outcome = run.execute(runner.Progress(run.session, self._say))
        if outcome.problems:
            raise outcome.problems[0]
        if outcome.exit_code:
            raise RunError(f"{', '.join(outcome.failed) or self.name} failed; the reasons are above")

    def _chain(self, phases: Sequence[str]) -> AbstractContextManager[Run]:
        migrating = replace(self.session.migrating, arriving=self.arriving)
        return runner.connected(
            self._inventory,
            limit=hosts_of(self._end),
            phases=phases,
            reason=self.session.reason,
            say=self._say,
            reboot=self._reboot,
            migrating=migrating,
            within=self.session,
            machines={self.machine.name: self.machine},
        )


class Dead:
    """An end that nobody asks, and what its inventory says of it: the source of a cold migration, or one that is not
    reached on the way back. ``why``: what whoever asks it is told, by a TransportError."""

    def __init__(self, end: End, why: str = "") -> None:
        self._why = why or f"{end.name} is not asked in a cold migration"
        self.name, self.machine, self.guest, self.service = end.name, end.machine, end.guest, end.service
        self.arriving: frozenset[str] = frozenset()

    def host(self, script: str, *, stdin: bytes = b"", timeout: float | None = 60) -> Completed:
        raise TransportError(self._why)

    def inside(self, script: str, *, stdin: bytes = b"", timeout: float | None = 60) -> Completed:
        raise TransportError(self._why)

    def hold(self) -> None:
        raise TransportError(self._why)

    @property
    def wanted(self) -> Wanted:
        raise TransportError(self._why)

    def observed(self) -> Observed:
        raise TransportError(self._why)

    def plan(self, phases: Sequence[str]) -> Plan:
        raise TransportError(self._why)

    def apply(self, phases: Sequence[str]) -> None:
        raise TransportError(self._why)


@dataclass(frozen=True)
class Ends:
    """Both ends, connected, or one that is ``Dead`` on the way back; ``source`` None: the migration is a cold one."""

    source: Live | Dead | None
    target: LiveTarget | Dead

    @property
    def session(self) -> Session:
        """The one that has journal and locks of both."""
        return next(side.session for side in (self.target, self.source) if isinstance(side, Live))

    def belong_to(self, migrating: Migrating) -> None:
        """Everything from here on is a part of this migration. Nothing may have been written before."""
        for side in (self.target, self.source):
            if isinstance(side, Live):
                side.session.belong_to(migrating)


@contextmanager
def connected(
    source: End,
    target: End,
    paths: tuple[Path, Path],
    reason: str,
    say: Say,
    *,
    cold: bool,
    reboot: bool,
    back: bool = False,
) -> Iterator[Ends]:
    """Connects to both machines, the target alone when ``cold``; gives their locks back at the end. ``paths``: of both
    inventory files. Raises Unreachable when one cannot be reached, for both at once; on the way ``back`` only when
    neither can."""
    with ExitStack() as stack:

        def reach(end: End, path: Path, within: Session | None = None) -> Run | Unreachable:
            try:
                return stack.enter_context(
                    runner.connected(
                        path,
                        limit=hosts_of(end),
                        phases=(),
                        reason=reason,
                        say=say,
                        within=within,
                        machines={end.machine.name: end.machine},
                    )
                )
            except Unreachable as error:
                return error

        there = reach(target, paths[1])
        two = (
            Dead(target, _of_machine(there))
            if isinstance(there, Unreachable)
            else LiveTarget(there, target, paths[1], say, reboot)
        )
        if cold:
            if isinstance(there, Unreachable):
                raise there
            yield Ends(None, two)
            return
        here = reach(source, paths[0], two.session if isinstance(two, Live) else None)
        missing = [one for one in (there, here) if isinstance(one, Unreachable)]
        if len(missing) > (1 if back else 0):
            dead = isinstance(here, Unreachable) and not back
            raise Unreachable(
                [away for one in missing for away in one.machines],
                f"Where {source.name} is dead for good: --cold (docs/migration.md)" if dead else "",
            )
        if isinstance(here, Unreachable):
            yield Ends(Dead(source, _of_machine(here)), two)
            return
        one = Live(here, source)
        try:
            yield Ends(one, two)
        finally:
            with suppress(OSError):
                one.give_back()


def _of_machine(error: Unreachable) -> str:
    """Why the machine is not reached; what to do next depends on what is asked for."""
    return error.machines[0].why


def hosts_of(end: End) -> tuple[str, str]:
    """The two pyinfra hosts of an end: other guests of its machine have no part in it."""
    return end.machine.host_name, end.machine.guest_host_name(end.guest)
