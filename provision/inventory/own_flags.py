"""Flags of an inventory that are kpro's own to write, or lead past what it writes, under whatever spelling. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from provision.data.engines import Kind
from provision.data.flag_names import taken_for
from provision.forms import Where
from provision.spec import Service


def of_service(service: Service, kind: Kind) -> Iterator[tuple[Where, str]]:
    """Every flag that is not the inventory's to give, and words that are two."""
    refused = dict(kind.refused)
    for index, flag in enumerate(service.flags):
        name = flag.split("=")[0]
        if not flag.startswith("-"):
            continue
        if any(char.isspace() for char in name):
            first, rest = flag.split(maxsplit=1)
            yield ("flags", index), f"is one word to the engine: write {first!r}, {rest!r}"
            continue
        own = taken_for(kind.kind, service.engine.version, flag, (*kind.reserved, *refused))
        if own is None:
            continue
        read = name if name == own else f"{name} is read as {own}, which"
        if own in refused:
            yield ("flags", index), f"{read} {refused[own]}"
        else:
            yield ("flags", index), f"{read} is written by kpro from the fields of the service: leave it out"
