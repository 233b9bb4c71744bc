"""A service that somebody else set up, as it is seen in its guest: nothing of it is taken from the inventory. Pure."""

from __future__ import annotations

from typing import Any

from checks.snapshot import CouldNotLook, Snapshot
from provision.adopt import process, words
from provision.adopt.plan import differences, main_process
from provision.spec import Service

UNKNOWN = "unknown"
GONE = "not there"
"""Of a unit that its guest does not have."""


def seen(service: Service, inside: Snapshot | None) -> dict[str, Any]:
    """``active``, ``engine`` and ``port`` of what runs; ``drift``: the fields that the inventory says otherwise, each
    with what was seen. Raises CouldNotLook."""
    if inside is None:
        raise CouldNotLook("its guest could not be looked into")
    if service.found is None:
        raise CouldNotLook("the inventory does not say how it was found")
    unit = process.unit(inside, service.found.unit)
    there = process.processes(inside)
    running = main_process(service.found.unit, there)
    started = words.started(running.words) if running else None
    found: dict[str, Any] = {
        "active": unit.state if unit else GONE,
        "sub_state": "running" if running else UNKNOWN,
        "drift": [
            {"field": field.lstrip("."), "seen": text} for field, text in differences(service, there, inside)
        ],
    }
    if running and started:
        install = running.install(words.distributions(started.kind))
        version = install[0] if install else "(version unknown)"
        found |= {"engine": f"{service.engine.kind} {version}", "port": started.port}
    return found
