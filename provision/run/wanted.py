"""What the controller brings to a machine: services worked out, the gate packed, uv found."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from uv import find_uv_bin

from checks import pack
from provision.planner import Wanted
from provision.run.journal import cache_folder
from provision.spec import Machine
from provision.stack.decide import Shipped
from provision.stack.desired import desired_service


@cache
def _pyz() -> Shipped:
    path = cache_folder() / "provcheck.pyz"
    path.parent.mkdir(parents=True, exist_ok=True)
    return Shipped(str(path), pack.build(path))


@cache
def _uv() -> Shipped:
    path = find_uv_bin()
    with Path(path).open("rb") as file:
        return Shipped(path, hashlib.file_digest(file, "sha256").hexdigest())


def wanted_for(machine: Machine) -> Wanted:
    """Reads files of the controller only."""
    services = {
        guest.name: tuple(desired_service(guest, service) for service in guest.services)
        for guest in machine.guests
    }
    return Wanted(services, _pyz(), _uv())
