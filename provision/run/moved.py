"""A machine with an open migration is left alone by every other run that changes something."""

from __future__ import annotations

from checks.snapshot import CouldNotLook
from provision.migrate import standing
from provision.run.errors import Refused, RunError
from provision.run.session import Session
from provision.spec import Machine


def refuse_while_moving(session: Session, machine: Machine) -> None:
    """Raises Refused while a service of this machine is being moved, or was and can still go back; RunError where that
    cannot be read."""
    host = session.observed(machine).host
    try:
        refusals = standing.unclosed(machine, host, session.migrating.run)
    except (CouldNotLook, ValueError) as error:
        raise RunError(f"{machine.name}: whether a service is being moved cannot be read: {error}") from error
    if refusals:
        raise Refused(refusals)
