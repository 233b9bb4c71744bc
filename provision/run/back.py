"""A failed step of the metal takes back what its run changed there, by itself."""

from __future__ import annotations

import time

import gevent

from provision.acts import confirm, service, undo
from provision.host.swap import STOP
from provision.plan import Item, Plan, Step
from provision.run.errors import ActFailed, RunError
from provision.run.session import Session
from provision.spec import Machine

POLL_SECONDS = 3.0


def metal_items(session: Session, machine: Machine) -> list[Item]:
    """What this run did, or began, on the metal in steps 2-5."""
    return [
        item
        for item in session.changed
        if item.host == machine.host_name and Step.RELEASE <= item.step <= Step.DEVICE_NODES
    ]


def prove_metal(plan: Plan, host: str) -> None:
    """Raises ActFailed when a plan from a fresh look still has something to do on the metal in steps 2-5, or cannot
    tell. A boot that is to be confirmed is no such thing: this is what it waits for."""
    left = [
        item.text
        for item in plan.items
        if item.host == host
        and Step.RELEASE <= item.step <= Step.DEVICE_NODES
        and item.kind != "reboot.confirm"
    ]
    reasons = left + [str(refusal) for refusal in plan.refusals]
    if reasons:
        raise ActFailed(
            "the steps of the metal said that all went well, and a fresh look finds left:\n"
            + "\n".join(f"  - {reason}" for reason in reasons)
        )


def take_back(session: Session, machine: Machine, step: Step) -> None:
    """After a failure in steps 2-6: the changes of this run are undone, when there are any on the metal.

    What a red gate or a service leaves is evidence, and stays. Nothing is taken back when the lock was lost: another
    run may be at work, and the next one of ours goes on from what it finds.
    """
    if not Step.RELEASE <= step <= Step.CONTAINER or not metal_items(session, machine):
        return
    name = machine.host_name
    runs = [session.id, *(run for run in session.exchange.earlier(machine) if run != session.id)]
    by_hand = f"on the machine: /var/lib/kpro/undo.sh {session.id}"
    session.say(f"{name}: taking back what this run changed on the machine")
    try:
        session.check_lock(machine)
        session.tell_journal("rollback", host=name, of=session.id)
        done = undo.undo(session.host(name), session.id, session.id)
        for run in runs[1:] if done.ok else ():
            # It was cut in the middle of what this run went on with.
            more = undo.undo(session.host(name), session.id, run)
            done = undo.Undone(more.ok, done.reboot or more.reboot, (*done.said, *more.said))
        if (
            done.ok
            and not done.reboot
            and any(item.kind == "reboot" for item in metal_items(session, machine))
        ):
            # Else the machine, which waits for a confirmation, would do it once more.
            confirm.disarm(session.host(name))
    except RunError as error:
        session.say(
            f"{name}: it could not be taken back ({error}). Run again to go on from there, or {by_hand}"
        )
        return
    finally:
        session.new_epoch(machine)
    for line in done.said:
        session.say(f"{name}:   {line}")
    how = (
        "left something, as said above"
        if not done.ok
        else "needs a reboot to be whole"
        if done.reboot
        else "is whole"
    )
    session.tell_journal("rolled back", host=name, whole=done.ok, reboot=done.reboot, said=done.said)
    session.say(f"{name}: the way back {how}")


def see_services(session: Session, machine: Machine) -> None:
    """After guests were stopped for another driver and that was taken back: does each of their services answer?"""
    stopped = {
        item.subject for item in session.changed if item.kind == STOP and item.host == machine.host_name
    }
    for guest in machine.guests:
        for desired in session.wanted(machine).services[guest.name] if guest.name in stopped else ():
            name = machine.guest_host_name(guest)
            until = time.monotonic() + desired.service.ready_seconds
            try:
                while (
                    not (done := service.prove(session.host(name), desired)).ok and time.monotonic() < until
                ):
                    gevent.sleep(POLL_SECONDS)
            except (RunError, OSError) as error:
                session.say(f"{name}: {desired.service.unit} could not be asked: {error}")
                continue
            session.tell_journal(
                "answered again" if done.ok else "does not answer", host=name, service=desired.name
            )
            if done.ok:
                session.say(f"{name}: {desired.name} answers again at {desired.url}")
            else:
                session.say(
                    f"{name}: {desired.service.unit} DOES NOT ANSWER within {desired.service.ready_seconds} s. "
                    f"Look in the guest at: journalctl -u {desired.service.unit}"
                )
