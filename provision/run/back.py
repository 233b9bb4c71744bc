"""A failed step of the metal takes back what its run changed there, by itself."""

from __future__ import annotations

from provision.acts import confirm, undo
from provision.plan import Item, Plan, Step
from provision.run.errors import ActFailed, RunError
from provision.run.session import Session
from provision.spec import Machine


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
    by_hand = f"on the machine: /var/lib/kpro/undo.sh {session.id}"
    session.say(f"{name}: taking back what this run changed on the machine")
    try:
        session.check_lock(machine)
        session.journal.write("rollback", host=name, of=session.id)
        done = undo.undo(session.host(name), session.id, session.id)
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
    session.journal.write("rolled back", host=name, whole=done.ok, reboot=done.reboot, said=done.said)
    session.say(f"{name}: the way back {how}")
