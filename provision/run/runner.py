"""Plan and apply through pyinfra's own API: one process, one connection a machine, the same deploy.py."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gevent
import pyinfra
from pyinfra.api.config import Config
from pyinfra.api.connect import connect_all, disconnect_all
from pyinfra.api.exceptions import PyinfraError
from pyinfra.api.host import Host
from pyinfra.api.operations import run_ops
from pyinfra.api.state import BaseStateCallback, State, StateStage
from pyinfra.context import ctx_config, ctx_inventory, ctx_state

from provision.host import first_contact, reconnect, transport
from provision.migrate.standing import Migrating
from provision.plan import Plan
from provision.run import ending
from provision.run.errors import EXIT_ERROR, CandidateRefused, RunError, Unreachable
from provision.run.reaching import away
from provision.run.session import Session
from provision.run.told import quiet, silent
from provision.spec import Machine
from provision.templates import house


@dataclass(frozen=True)
class Outcome:
    """How a run ended: which machines failed with what, what was changed, how long each step took (seconds)."""

    run: str
    problems: tuple[RunError, ...]
    failed: tuple[str, ...]
    changed: tuple[str, ...]
    seconds: dict[str, float]
    exit_code: int
    pending: tuple[str, ...] = ()
    trials: tuple[dict[str, Any], ...] = ()

    @property
    def only_refused(self) -> bool:
        """Did it end with 1 for nothing but candidates that were refused?"""
        refused = [problem for problem in self.problems if isinstance(problem, CandidateRefused)]
        hosts = {problem.host for problem in refused}
        return bool(refused) and len(refused) == len(self.problems) and set(self.failed) <= hosts

    def failed_on(self, machine: Machine) -> bool:
        """A machine fails as a unit: with its metal or with any of its guests. A pending reboot is no failure."""
        hosts = {machine.host_name, *(machine.guest_host_name(guest) for guest in machine.guests)}
        return machine.name not in self.pending and bool(hosts & set(self.failed))


class Run:
    """One connected run over an inventory file. Use it through ``connected``."""

    def __init__(self, state: State, session: Session) -> None:
        self.state = state
        self.session = session

    @property
    def machines(self) -> list[Machine]:
        """The machines that have a host within the limit, in the order of the inventory."""
        found: dict[str, Machine] = {}
        for host in self.state.inventory:
            if self.state.is_host_in_limit(host):
                found.setdefault(host.data.machine.name, host.data.machine)
        return list(found.values())

    def plans(self) -> list[Plan]:
        """The plan of each machine, remembered as what was shown. Raises RunError when one cannot be looked at."""
        return [self.session.show(machine) for machine in self.machines]

    def remote_commands(self) -> int:
        return sum(transport.remote_commands(host) for host in self.state.inventory)

    def execute(self, callback: Progress) -> Outcome:
        """Runs deploy.py. What fails is told in the outcome; raises RunError only when there can be no journal."""
        state, session = self.state, self.session
        session.open_journal()
        # Importing pyinfra_cli patches the whole process for gevent: provision.cli does so first of all.
        from pyinfra_cli.util import load_deploy_file

        state.set_stage(StateStage.Prepare)
        state.add_callback_handler(callback)  # type: ignore[no-untyped-call]
        with suppress(PyinfraError):
            load_deploy_file(state, str(house("deploy.py", "_deploy.py")))
            state.set_stage(StateStage.Execute)
            run_ops(state)
        return Outcome(
            session.id,
            tuple(session.problems),
            tuple(sorted(host.name for host in state.failed_hosts)),
            tuple(item.id for item in session.changed),
            callback.seconds,
            session.exit_code,
            tuple(sorted(session.pending)),
            tuple(session.tried.trials),
        )


class Progress(BaseStateCallback):
    """Tells when an operation that does something begins and how long it took; one that has nothing to do is quiet."""

    def __init__(self, session: Session, say: Callable[[str], None]) -> None:
        self.session = session
        self.say = say
        self.seconds: dict[str, float] = {}
        self._started: dict[tuple[str, str], tuple[float, int]] = {}

    def operation_host_start(self, state: State, host: Host, op_hash: str) -> None:  # type: ignore[override]
        self._started[host.name, op_hash] = time.monotonic(), len(self.session.changed)

    def operation_host_success(  # type: ignore[override]
        self, state: State, host: Host, op_hash: str, retry_count: int = 0
    ) -> None:
        self._ended(state, host, op_hash, "done")

    def operation_host_error(  # type: ignore[override]
        self, state: State, host: Host, op_hash: str, retry_count: int = 0, max_retries: int = 0
    ) -> None:
        # pyinfra knows success and failure only; a machine that waits for its reboot has not failed, nor has one whose
        # candidate was refused.
        if host.data.machine.name in self.session.pending:
            self._ended(state, host, op_hash, "waits for the reboot")
        elif isinstance(self.session.failed_by.get(host.name), CandidateRefused):
            self._ended(state, host, op_hash, "one was refused, and what served before goes on")
        else:
            self._ended(state, host, op_hash, "FAILED")

    def _name(self, state: State, op_hash: str) -> str:
        return ", ".join(sorted(state.get_op_meta(op_hash).names))

    def _ended(self, state: State, host: Host, op_hash: str, how: str) -> None:
        started, changes = self._started.pop((host.name, op_hash))
        took = time.monotonic() - started
        name = self._name(state, op_hash)
        self.seconds[name] = self.seconds.get(name, 0.0) + took
        if how != "done" or any(item.host == host.name for item in self.session.changed[changes:]):
            after = f" in {took:.1f} s" if how in ("done", "FAILED") else ""
            self.say(f"{host.name}: {name}: {how}{after}")


@contextmanager
def connected(
    inventory: Path,
    *,
    limit: Sequence[str] = (),
    phases: Sequence[str],
    reason: str,
    say: Callable[[str], None],
    reboot: bool = False,
    report: bool = True,
    migrating: Migrating | None = None,
    within: Session | None = None,
    machines: Mapping[str, Machine] | None = None,
) -> Iterator[Run]:
    """Connects to the machines of an inventory file; ``limit`` names the pyinfra hosts, none means all;
    ``reboot``: machines may boot even where the inventory does not allow it; ``report``: the run's report is written.
    ``migrating``: the migration that this is part of. ``within``: a session whose locks and journal this one uses and
    leaves open. ``machines``: what stands for machines of the inventory, by their names.

    Raises Unreachable when one cannot be reached.
    """
    from pyinfra_cli.inventory import make_inventory

    pyinfra.is_cli = True
    state = State(check_for_changes=False)
    state.cwd = str(Path.cwd())
    config = Config()  # type: ignore[no-untyped-call]
    config.lock_current_state()
    with ctx_state.use(state), ctx_config.use(config):
        hosts = make_inventory(str(inventory), cwd=state.cwd, override_data={})
        _stand_for(hosts.host_data, machines or {})
        first_contact.tell()
        _strict(hosts.host_data)
        with ctx_inventory.use(hosts):
            state.init(hosts, config, initial_limit=[hosts.get_host(name) for name in limit] or None)
            session = Session(
                state,
                phases=phases,
                reason=reason,
                reboot=reboot,
                say=say,
                report=report,
                migrating=migrating,
                within=within,
            )
            state.kpro_session = session  # type: ignore[attr-defined]
            quiet()
            transport.watch(state)
            _connect(state)
            try:
                yield Run(state, session)
            except BaseException as error:
                session.ended = getattr(error, "exit_code", EXIT_ERROR)
                if isinstance(error, Exception):
                    session.tell_end(str(error))
                if isinstance(error, KeyboardInterrupt):
                    session.ended = ending.code()
                    for line in session.tried.left_alone():
                        session.say(line)
                    if session.untouched() and ending.last() is None:
                        raise ending.Ended(ending.NOTHING) from error
                raise
            finally:
                # After an interrupt operations may still be under way; ended ones have nothing to kill.
                state.pool.kill(timeout=10)
                session.close()
                disconnect_all(state)


def _stand_for(data: Mapping[str, dict[str, Any]], machines: Mapping[str, Machine]) -> None:
    """Puts these specs in the place of the inventory's, for each pyinfra host of their machines."""
    for given in data.values():
        machine = machines.get(given["machine"].name) if "machine" in given else None
        if machine is not None:
            given["machine"] = machine
            names = {guest.name: guest for guest in machine.guests}
            if "guest" in given and given["guest"].name in names:
                given["guest"] = names[given["guest"].name]


def _strict(data: Mapping[str, dict[str, Any]]) -> None:
    """pyinfra's own default goes before what ssh_config says."""
    for given in data.values():
        ssh = given["machine"].ssh if "machine" in given and "guest" not in given else None
        if ssh is not None and first_contact.strict(ssh):
            given.setdefault("ssh_strict_host_key_checking", "yes")


def _connect(state: State) -> None:
    state.set_stage(StateStage.Connect)
    errors: dict[str, str] = {}
    attempts: dict[str, Any] = {}

    class Errors(BaseStateCallback):
        @staticmethod
        def host_before_connect(state: State, host: Host) -> None:
            attempts[host.name] = gevent.getcurrent()

        @staticmethod
        def host_connect_error(state: State, host: Host, error: Any) -> None:
            errors[host.name] = str(error)

    state.add_callback_handler(Errors())  # type: ignore[no-untyped-call]
    hub = gevent.get_hub()
    # What pyinfra does not expect of an attempt, such as a key that cannot be read, has no callback, and a traceback.
    hub.NOT_ERROR = (*hub.NOT_ERROR, PyinfraError)
    with suppress(PyinfraError), silent():
        connect_all(state)
    for name, attempt in attempts.items():
        if isinstance(error := getattr(attempt, "exception", None), PyinfraError):
            errors.setdefault(name, str(error))
    for host in state.inventory:
        reconnect.notice_silence(host)
    if errors:
        machines = {host.data.machine.name: host.data.machine for host in state.inventory}
        raise Unreachable(away(errors, machines.values()))
