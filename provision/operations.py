"""The operations of the chain. Thin: each asks for the plan, does nothing when nothing is planned, or acts.

While planning they only say whether something is to be done. In execute they read the machine again, and anything
that is more than what was shown ends the run for this machine.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from pyinfra.api.command import FunctionCommand
from pyinfra.api.host import Host
from pyinfra.api.operation import operation
from pyinfra.api.state import State

from provision.acts import guests as guest_acts
from provision.acts import service as service_acts
from provision.plan import Step
from provision.run import back, gating, rebooting
from provision.run.carrying import Commands, carried, executing, guarded, planned
from provision.run.errors import ActFailed, Refused
from provision.run.session import Session
from provision.spec import Machine


@operation()
def inspect() -> Commands:
    """Step 1: take the machine, look at it again, and refuse with every reason before anything is touched."""

    def body(session: Session, host: Host, machine: Machine) -> Commands:
        if executing(session.state):
            session.take_lock(machine)
        plan = session.plan(machine)
        if plan.refusals:
            raise Refused(plan.refusals)
        if executing(session.state):
            session.check_against_shown(machine, plan)
        host.noop(f"{len(plan.items)} change(s) planned" if plan.items else "in sync")
        yield from ()

    yield from guarded(body)


@operation()
def carry_out(kind: str) -> Commands:
    """Carries out the plan's items of one kind on this host."""

    def body(session: Session, host: Host, machine: Machine) -> Commands:
        for item in planned(session, host, machine, kind):
            yield FunctionCommand(carried(session, machine, item), (), {})

    yield from guarded(body)


@operation()
def prove_metal() -> Commands:
    """After step 5: a fresh look at the machine must find nothing left to do on the metal."""

    def body(session: Session, host: Host, machine: Machine) -> Commands:
        if host.name != machine.host_name:
            host.noop("a guest has no metal")
            return
        if not executing(session.state):
            host.noop("the metal is looked at when the run gets here")
            return
        if back.metal_items(session, machine):
            session.new_epoch(machine)
        plan = session.plan(machine)
        try:
            back.prove_metal(plan, host.name)
        except ActFailed as error:
            yield FunctionCommand(_unproven(session, machine, error), (), {})
            return
        host.noop("the metal is as wanted")

    yield from guarded(body)


def _unproven(session: Session, machine: Machine, problem: ActFailed) -> Callable[[State, Host], bool]:
    def act(state: State, host: Host) -> bool:
        session.problems.append(problem)
        session.tell_journal("failed", host=host.name, why=str(problem))
        session.say(f"{host.name}: {problem}")
        back.take_back(session, machine, Step.DEVICE_NODES)
        return False

    return act


@operation()
def reboot() -> Commands:
    """Step 4: the machine boots when it has to and may; else the run ends here, after what could be done before."""

    def body(session: Session, host: Host, machine: Machine) -> Commands:
        plan = session.plan(machine)
        if plan.refusals:
            raise Refused(plan.refusals)
        items = plan.of("reboot", host.name)
        if not items:
            host.noop("no reboot is needed")
            return
        if executing(session.state):
            session.check_against_shown(machine, plan)
            rebooting.check(session, host, machine, items[0])
        yield FunctionCommand(carried(session, machine, items[0]), (), {})

    yield from guarded(body)


@operation()
def confirm() -> Commands:
    """Step 5, last: a boot of this chain is confirmed, now that the metal is proven. One that is not confirmed is taken
    back by the machine itself."""

    def body(session: Session, host: Host, machine: Machine) -> Commands:
        plan = session.plan(machine)
        items = plan.of("reboot.confirm", host.name)
        if not items:
            host.noop("no boot waits for a confirmation")
            return
        yield FunctionCommand(carried(session, machine, items[0]), (), {})

    yield from guarded(body)


@operation()
def gate(restarted: bool = False) -> Commands:
    """Step 9: the gates of what is about to be started, run where it will run. Green changes nothing; red stops here.

    ``restarted``: asked again where this run restarted the container, since its new configuration is what counts.
    """

    def body(session: Session, host: Host, machine: Machine) -> Commands:
        yield from gating.gate(session, host, machine, restarted=restarted)

    yield from guarded(body)


@operation()
def prove() -> Commands:
    """Step 10, last: each service really generates, now. Only looks."""

    def body(session: Session, host: Host, machine: Machine) -> Commands:
        if not executing(session.state):
            host.noop("the service is asked when the run gets here")
            return
        for desired in gating.services(session, host, machine):
            done = service_acts.prove(host, desired)
            if not done.ok:
                raise ActFailed(
                    f"{desired.service.unit} runs but does not generate: {done.text.strip() or done.error_text}"
                )
            answer = json.loads(done.stdout)
            session.journal.write(
                "answered",
                host=host.name,
                service=desired.name,
                seconds=answer.get("seconds"),
                text=answer.get("text", ""),
            )
            session.say(f"{host.name}: {desired.name} answered at {desired.url}: {answer.get('text', '')!r}")
        host.noop("every service generates")
        yield from ()

    yield from guarded(body)


@operation()
def exchange_over() -> Commands:
    """Last of all: guests that were stopped for another driver serve again, so that nothing is to be taken back."""

    def body(session: Session, host: Host, machine: Machine) -> Commands:
        waits = session.exchanging(machine) or session.exchange.earlier(machine)
        if not executing(session.state) or host.name != machine.host_name or not waits:
            host.noop("no exchange of the driver is under way")
            return
        names = {machine.guest_host_name(guest) for guest in machine.guests}
        failed = sorted(names & {failed.name for failed in session.state.failed_hosts})
        if failed:
            raise ActFailed(f"{', '.join(failed)} did not come back into service with the other driver")
        session.exchange.over(machine)
        guest_acts.over(host)
        host.noop("every guest is back")
        yield from ()

    yield from guarded(body)
