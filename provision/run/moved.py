"""A machine with an open migration is left alone by every other run that changes something."""

from __future__ import annotations

from checks.snapshot import CouldNotLook
from provision.migrate import standing
from provision.migrate.standing import Record
from provision.run.errors import Refused, RunError
from provision.run.session import Session
from provision.spec import Machine


def refuse_while_moving(session: Session, machine: Machine) -> list[Record]:
    """What the machine knows of migrations of its services, all of which have ended. Raises Refused while one is open,
    or can still go back; RunError where that cannot be read."""
    host = session.observed(machine).host
    try:
        refusals = standing.unclosed(machine, host, session.migrating.run)
        records = standing.records(machine, host)
    except (CouldNotLook, ValueError) as error:
        raise RunError(f"{machine.name}: whether a service is being moved cannot be read: {error}") from error
    if refusals:
        raise Refused(refusals)
    return records
