"""The two ends of a migration on real hosts: pyinfra's connections, the machines' locks, the chain on the target."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
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
from provision.run.errors import Refused, RunError
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
    """The source of a cold migration: what its inventory says, and nobody to ask."""

    def __init__(self, end: End) -> None:
        self._end = end
        self.name, self.machine, self.guest, self.service = end.name, end.machine, end.guest, end.service

    def host(self, script: str, *, stdin: bytes = b"", timeout: float | None = 60) -> Completed:
        raise TransportError(f"{self.name} is not asked in a cold migration")

    def inside(self, script: str, *, stdin: bytes = b"", timeout: float | None = 60) -> Completed:
        raise TransportError(f"{self.name} is not asked in a cold migration")

    def hold(self) -> None:
        raise TransportError(f"{self.name} is not asked in a cold migration")


@dataclass(frozen=True)
class Ends:
    """Both ends, connected; ``source`` None: it is dead."""

    source: Live | None
    target: LiveTarget

    @property
    def session(self) -> Session:
        """The one that has journal and locks of both."""
        return self.target.session

    def belong_to(self, migrating: Migrating) -> None:
        """Everything from here on is a part of this migration. Nothing may have been written before."""
        for side in (self.target, self.source):
            if side is not None:
                side.session.belong_to(migrating)


@contextmanager
def connected(
    source: End, target: End, paths: tuple[Path, Path], reason: str, say: Say, *, cold: bool, reboot: bool
) -> Iterator[Ends]:
    """Connects to both machines, the target alone when ``cold``; gives their locks back at the end. ``paths``: of both
    inventory files. Raises RunError when one cannot be reached."""
    with runner.connected(
        paths[1],
        limit=hosts_of(target),
        phases=(),
        reason=reason,
        say=say,
        machines={target.machine.name: target.machine},
    ) as there:
        two = LiveTarget(there, target, paths[1], say, reboot)
        if cold:
            yield Ends(None, two)
            return
        with runner.connected(
            paths[0],
            limit=hosts_of(source),
            phases=(),
            reason=reason,
            say=say,
            within=there.session,
            machines={source.machine.name: source.machine},
        ) as here:
            one = Live(here, source)
            try:
                yield Ends(one, two)
            finally:
                with suppress(OSError):
                    one.give_back()


def hosts_of(end: End) -> tuple[str, str]:
    """The two pyinfra hosts of an end: other guests of its machine have no part in it."""
    return end.machine.host_name, end.machine.guest_host_name(end.guest)
