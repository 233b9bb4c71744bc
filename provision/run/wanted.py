"""What the controller brings to a machine: services worked out, the gate packed, uv found."""

from __future__ import annotations

import hashlib
from functools import cache
from itertools import chain
from pathlib import Path

from checks import pack
from provision.driver import cache as prebuilt
from provision.driver.installer import Installer
from provision.planner import Wanted
from provision.spec import Machine
from provision.stack.decide import Shipped
from provision.stack.desired import DesiredService, desired_service


@cache
def _pyz() -> Shipped:
    return _shipped(pack.cached())


@cache
def _uv() -> Shipped:
    # Only services need it: what has none runs without the package.
    from uv import find_uv_bin

    return _shipped(Path(find_uv_bin()))


def _shipped(path: Path) -> Shipped:
    with path.open("rb") as file:
        return Shipped(str(path), hashlib.file_digest(file, "sha256").hexdigest())


def _is_built(desired: DesiredService) -> bool:
    """An engine environment is installed for it; one that lies in the guest as a tree is not."""
    return desired.engine.tree is None or (desired.candidate is not None and _is_built(desired.candidate))


def wanted_for(machine: Machine) -> Wanted:
    """Reads files of the controller only."""
    services = {
        guest.name: tuple(
            desired_service(guest, service, machine) for service in guest.services if guest.managed
        )
        for guest in machine.guests
    }
    built = any(map(_is_built, chain.from_iterable(services.values())))
    uv = _uv() if built else None
    return Wanted(services, _pyz(), uv, (*prebuilt.held(), *_installers(machine)))


def _installers(machine: Machine) -> tuple[Installer, ...]:
    driver = machine.driver
    by_run = driver is not None and (
        driver.route == "run" or any(guest.userspace == "run" for guest in machine.guests)
    )
    return (prebuilt.installer(driver.version, driver.installer, driver.sha256),) if driver and by_run else ()
