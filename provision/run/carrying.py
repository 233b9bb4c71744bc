"""How an operation of the chain works: what goes wrong fails its host alone, what is done is journalled, ticks, and is
taken back when it fails on the metal."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress

import gevent
from pyinfra import context
from pyinfra.api.command import FunctionCommand
from pyinfra.api.host import Host
from pyinfra.api.state import State, StateStage

from provision import acts
from provision.acts.voice import Voice
from provision.plan import Item, Step
from provision.run.back import see_services, take_back
from provision.run.errors import ActFailed, RebootPending, Refused, RunError
from provision.run.session import Session
from provision.spec import Machine

Commands = Generator[FunctionCommand, None, None]
TICK_SECONDS = 15


def executing(state: State) -> bool:
    return state.current_stage >= StateStage.Execute


def _fails(session: Session, host: Host, machine: Machine, error: RunError) -> FunctionCommand:
    """One failing command that says why: an exception here would end the run for every machine."""

    def fail(state: State, host: Host) -> bool:
        session.tell_journal("failed", host=host.name, why=str(error))
        session.failed_by[host.name] = error
        if error not in session.problems:
            session.problems.append(error)
            if isinstance(error, RebootPending):
                session.pending[host.data.machine.name] = error
            for line in str(error).splitlines():
                session.say(f"{host.name}: {line}")
        if session.exchanging(machine):
            _back_to_the_old_driver(session, host, machine)
        return False

    return FunctionCommand(fail, (), {})


def planned(session: Session, host: Host, machine: Machine, kind: str) -> tuple[Item, ...]:
    """The plan's items of one kind on this host, held against what was shown. Raises Refused and
    HostChanged."""
    plan = session.plan(machine)
    if plan.refusals:
        raise Refused(plan.refusals)
    items = plan.of(kind, host.name)
    if not items:
        host.noop(f"nothing to do for {kind}")
    elif executing(session.state):
        session.check_against_shown(machine, plan)
    return items


def guarded(body: Callable[[Session, Host, Machine], Commands]) -> Commands:
    """Runs an operation's body; what goes wrong in it, or went wrong on the guest's machine, fails this host alone."""
    host, state = context.host, context.state
    session = Session.of(state)
    machine: Machine = host.data.machine
    failed = {failed.name for failed in state.failed_hosts}
    try:
        if session.usage is not None:
            raise session.usage
        if machine.name in session.pending:
            raise session.pending[machine.name]
        if host.name != machine.host_name and machine.host_name in failed:
            raise RunError(f"{machine.host_name}, the machine of this guest, failed: nothing is done here")
        yield from body(session, host, machine)
    except RunError as error:
        yield _fails(session, host, machine, error)


def carried(
    session: Session,
    machine: Machine,
    item: Item,
    forgiven: Callable[[RunError], RunError | None] = lambda problem: None,
) -> Callable[[State, Host], bool]:
    """``forgiven``: the problem that is told instead when the host did not fail by it."""

    def act(state: State, host: Host) -> bool:
        # A reboot tells how it gets on by itself.
        ticker = gevent.spawn(_tick, session, item.host, item.text) if item.kind != "reboot" else None
        try:
            session.begin(machine, item)
            acts.carry_out(host, item, Voice(session.id, session.say))
            if item.kind == "reboot":
                session.rebooted(machine)
        except (RunError, OSError) as error:
            problem = error if isinstance(error, RunError) else ActFailed(str(error))
            told = forgiven(problem)
            if told is not None:
                session.problems.append(told)
                session.say(f"{host.name}: {told}")
                session.end(machine, item, str(told))
                return True
            session.problems.append(problem)
            session.say(f"{host.name}: {problem}")
            if item.kind == "reboot" and not host.connected:
                session.lock_is_lost(machine)
            with suppress(RunError):
                # The machine's own journal cannot be written when it is the machine that went away.
                session.end(machine, item, str(problem))
            if ticker is not None:
                ticker.kill()
            if session.exchanging(machine):
                _back_to_the_old_driver(session, host, machine)
            elif item.host == machine.host_name:
                ticker = gevent.spawn(_tick, session, host.name, f"the way back after: {item.text}")
                take_back(session, machine, item.step)
            return False
        finally:
            if ticker is not None:
                ticker.kill()
        session.end(machine, item)
        return True

    return act


def _back_to_the_old_driver(session: Session, host: Host, machine: Machine) -> None:
    """Whatever went wrong until the services answered: guests were stopped for another driver, and must not stay so."""
    session.exchange.over(machine)
    ticker = gevent.spawn(
        _tick, session, machine.host_name, "the way back to the driver that was loaded before"
    )
    try:
        take_back(session, machine, Step.DRIVER)
        see_services(session, machine)
    finally:
        ticker.kill()


@contextmanager
def ticking(session: Session, host: str, text: str) -> Iterator[None]:
    """Says now and then that work goes on which may be long."""
    ticker = gevent.spawn(_tick, session, host, text)
    try:
        yield
    finally:
        ticker.kill()


def _tick(session: Session, host: str, text: str) -> None:
    """Says now and then that long work goes on."""
    started = time.monotonic()
    while True:
        gevent.sleep(TICK_SECONDS)
        session.say(f"{host}: still at it after {time.monotonic() - started:.0f} s: {text}")
