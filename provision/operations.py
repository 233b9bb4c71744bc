"""The operations of the chain. Thin: each asks for the plan, does nothing when nothing is planned, or acts.

While planning they only say whether something is to be done. In execute they read the machine again, and anything
that is more than what was shown ends the run for this machine.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from pyinfra.api.command import FunctionCommand
from pyinfra.api.host import Host
from pyinfra.api.operation import operation
from pyinfra.api.state import State

from provision.acts import guests as guest_acts
from provision.acts import service as service_acts
from provision.acts import stack as stack_acts
from provision.plan import Step
from provision.run import back, rebooting, resting
from provision.run.carrying import Commands, carried, executing, guarded
from provision.run.errors import ActFailed, Refused
from provision.run.session import Session
from provision.spec import Guest, Machine
from provision.stack.desired import DesiredService, gate_command


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
        plan = session.plan(machine)
        if plan.refusals:
            raise Refused(plan.refusals)
        items = plan.of(kind, host.name)
        if not items:
            host.noop(f"nothing to do for {kind}")
            return
        if executing(session.state):
            session.check_against_shown(machine, plan)
        for item in items:
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
    """Step 9: the gate of each service, run where the service will run. Green changes nothing; red stops here.

    ``restarted``: asked again where this run restarted the container, since its new configuration is what counts.
    """

    def body(session: Session, host: Host, machine: Machine) -> Commands:
        if not executing(session.state):
            host.noop("the gate is asked when the run gets here")
            return
        if restarted and not _was_restarted(session, host, machine):
            host.noop("the container was not restarted")
            return
        for name, command in _gates(session, host, machine):
            verdict = _verdict(stack_acts.gate(host, command))
            session.journal.write(
                "gate",
                host=host.name,
                service=name,
                verdict=verdict["verdict"],
                evidence=verdict.get("evidence", "none"),
            )
            if verdict["verdict"] not in ("pass", "warn") or verdict["code"] != 0:
                if not restarted and _restart_comes(session, host, machine):
                    session.say(
                        f"{host.name}: gate of {name}: red in the container as it runs; nothing serves in it, so it is"
                        " restarted with its new configuration and asked again"
                    )
                    host.noop("the gate is asked after the restart")
                    return
                raise ActFailed(_red(name, verdict))
            shown = (
                f"REPLAYED ({verdict['verdict']})"
                if verdict.get("evidence") == "replayed"
                else verdict["verdict"]
            )
            session.say(f"{host.name}: gate of {name}: {shown}")
        host.noop("the gate is green")
        yield from ()

    yield from guarded(body)


def _services(session: Session, host: Host, machine: Machine) -> tuple[DesiredService, ...]:
    """The services of a guest; the metal itself has none, nor has a guest whose GPU virtual machines have."""
    if host.name == machine.host_name:
        return ()
    guest: Guest = host.data.guest
    if resting.rests(session, machine, guest):
        return ()
    return tuple(session.wanted(machine).services[guest.name])


def _gates(session: Session, host: Host, machine: Machine) -> list[tuple[str, tuple[str, ...]]]:
    """What the gate is asked for, by name: each service of a guest, or its GPUs where it has no service yet."""
    services = _services(session, host, machine)
    if services or host.name == machine.host_name:
        return [(desired.name, desired.gate) for desired in services]
    guest: Guest = host.data.guest
    gated = guest.gpus and guest.managed and not resting.rests(session, machine, guest)
    return [(guest.name, gate_command(guest, None))] if gated else []


def _was_restarted(session: Session, host: Host, machine: Machine) -> bool:
    return host.name != machine.host_name and any(
        item.kind == _RESTART and item.subject == host.data.guest.name and item.host == machine.host_name
        for item in session.changed
    )


def _restart_comes(session: Session, host: Host, machine: Machine) -> bool:
    """Does a restart that was shown wait for this guest, and would it take nothing away? A service that runs is left
    alone: its container may have lost its GPUs, but the service itself still has them open."""
    if host.name == machine.host_name or "activate" not in session.phases:
        return False
    waits = any(
        item.subject == host.data.guest.name for item in session.plan(machine).of(_RESTART, machine.host_name)
    )
    units = [desired.service.unit for desired in _services(session, host, machine)]
    return waits and not stack_acts.running(host, units)


_RESTART = "container.restart"


def _verdict(done: Any) -> dict[str, Any]:
    """The gate's report. What is no report is could-not-check, never green."""
    try:
        report = json.loads(done.stdout)
        if report.get("schema") != "provcheck/1":
            raise ValueError("no provcheck report")
    except (ValueError, AttributeError):
        why = " / ".join(done.error_text.splitlines()[-3:]) or f"exit {done.rc} without a report"
        report = {
            "verdict": "unknown",
            "findings": [{"status": "unknown", "id": "gate", "subject": "host", "message": why}],
        }
    return {**report, "code": done.rc}


def _red(name: str, verdict: dict[str, Any]) -> str:
    lines = [f"the gate of {name} is red ({verdict['verdict']}); what runs is left as it is"]
    for finding in verdict["findings"]:
        if finding.get("status") in ("fail", "unknown"):
            lines.append(f"  {finding['status']}  {finding['id']} {finding['subject']}: {finding['message']}")
            lines += [f"        {key}: {finding[key]}" for key in ("cause", "fix") if finding.get(key)]
    return "\n".join(lines)


@operation()
def prove() -> Commands:
    """Step 10, last: each service really generates, now. Only looks."""

    def body(session: Session, host: Host, machine: Machine) -> Commands:
        if not executing(session.state):
            host.noop("the service is asked when the run gets here")
            return
        for desired in _services(session, host, machine):
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
