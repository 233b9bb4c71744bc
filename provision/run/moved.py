"""A machine with an open migration is left alone by every other run that changes something."""

from __future__ import annotations

from checks.snapshot import CouldNotLook
from provision.migrate import standing
from provision.migrate.standing import Record
from provision.plan import Refusal
from provision.run.errors import Refused, RunError
from provision.run.session import Session
from provision.spec import Machine


def refuse_while_moving(session: Session, machine: Machine) -> None:
    """Raises Refused while a service of this machine is being moved, or was and can still go back; RunError where that
    cannot be read."""
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
    refusals += [_moved(machine, one) for one in found if one.state == "moved"]
    if refusals:
        raise Refused(refusals)


def _moved(machine: Machine, record: Record) -> Refusal:
    source, target = (machine.name, record.peer)[:: 1 if record.role == "source" else -1]
    why = (
        "what would be stopped here is the only way back"
        if record.role == "source"
        else "what would be taken away here is the only host that serves it"
    )
    return Refusal(
        f"machine {machine.name}",
        f"{record.service} was moved from {source} to {target} (run {record.run}), and that is not closed",
        why,
        f"provision migrate {source} {target} --finalize, or --rollback, then this again",
    )
