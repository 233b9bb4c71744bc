"""Which services a rollback ends with the containers that it stops, and whether anybody else has them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from provision.migrate.standing import Record
from provision.spec import Machine

_STOPPED = re.compile(
    r"stop container (?P<id>\S+?)(, which ends (?P<units>.+) in it|(?P<unknown>, and what serves .+))$"
)
"""As undo.sh says it when it is only to look."""


def told(machine: Machine, todo: Sequence[str], records: Sequence[Record]) -> Iterator[str]:
    """A line for each service that serves now in a container which is to be stopped. ``records``: what the machine
    knows of their migrations."""
    for line in todo:
        found = _STOPPED.match(line)
        if found is None:
            continue
        if found["unknown"]:
            yield f"what serves in container {found['id']} could not be asked: whatever does ends with it"
            continue
        for unit in found["units"].split(", "):
            yield f"{_name(machine, found['id'], unit)}, and ends with it{_alone(machine, found['id'], unit, records)}"


def _service(machine: Machine, id: str, unit: str) -> str:
    """Its name; empty for one that the inventory does not have."""
    guests = (guest for guest in machine.guests if guest.id == id)
    return next((one.name for guest in guests for one in guest.services if one.unit == unit), "")


def _name(machine: Machine, id: str, unit: str) -> str:
    name = _service(machine, id, unit)
    return f"{name} serves in container {id}" if name else f"{unit} runs in container {id}"


def _alone(machine: Machine, id: str, unit: str, records: Sequence[Record]) -> str:
    name = _service(machine, id, unit)
    for one in records:
        if one.service == name and (one.role, one.state) == ("target", "finalized"):
            return f": it was moved here from {one.peer} for good (run {one.run}), and nobody else has it"
    return ""
