"""A machine with an open migration is left alone by every other run that changes something."""

from __future__ import annotations

from checks.snapshot import CouldNotLook
from provision.migrate import standing
from provision.run.errors import Refused, RunError
from provision.run.session import Session
from provision.spec import Machine


def refuse_while_moving(session: Session, machine: Machine) -> None:
    """Raises Refused while a service of this machine is being moved, RunError where that cannot be read."""
    host = session.observed(machine).host
    try:
        found = standing.records(machine, host)
    except (CouldNotLook, ValueError) as error:
        raise RunError(f"{machine.name}: whether a service is being moved cannot be read: {error}") from error
    names = {one.service for one in found if one.state == "open"}
    refusals = [
        refusal
        for refusal in standing.refusals(machine, host, {}, session.migrating.run)
        if any(f" of {name} " in refusal.seen for name in names)
    ]
    if refusals:
        raise Refused(refusals)
