"""A failed step of the metal takes back what its run changed there, by itself."""

from __future__ import annotations

from provision.acts import confirm, undo
from provision.plan import Item, Step
from provision.run.errors import RunError
from provision.run.session import Session
from provision.spec import Machine


def metal_items(session: Session, machine: Machine) -> list[Item]:
    """What this run did, or began, on the metal in steps 2-5."""
    return [
        item
        for item in session.changed
        if item.host == machine.host_name and Step.RELEASE <= item.step <= Step.DEVICE_NODES
    ]


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
            # Else the machine, which still waits for a confirmation, would do it again.
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
