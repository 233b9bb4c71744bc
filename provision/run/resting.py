"""Does a guest rest in this run, because virtual machines have a GPU of it?"""

from __future__ import annotations

from checks.snapshot import CouldNotLook
from provision.assign.decide import changed
from provision.host import assigned
from provision.run.errors import RunError
from provision.run.session import Session
from provision.spec import Guest, Machine


def rests(session: Session, machine: Machine, guest: Guest) -> bool:
    """By the machine's record, with the hand-over of this run. Raises RunError when that cannot be told."""
    try:
        now = assigned.read(session.observed(machine).host)
    except CouldNotLook as error:
        raise RunError(str(error)) from error
    record = changed(now, session.handovers.get(machine.name))
    return guest.name in assigned.resting(machine, record)
