"""Packages of an installed driver that an upgrade in passing would swap: they are put on hold. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from checks.snapshot import Snapshot
from provision.data import driver_routes
from provision.host import apt_asked, driver_seen
from provision.plan import Item, Step
from provision.spec import Driver, Machine


@dataclass(frozen=True)
class Hold:
    """The packages to hold."""

    names: tuple[str, ...]


def loose(driver: Driver, system: str, snapshot: Snapshot) -> tuple[str, ...]:
    """Packages of the driver that kpro installed or held, and that are not held now. Those that somebody else put there
    are theirs to hold: what may swap them is told (``driver_checks.holds``)."""
    ours = apt_asked.named_in_manifest(snapshot, ("packages", "hold"))
    packages, held = driver_seen.packages(snapshot), driver_seen.held(snapshot)
    names = (
        part.package for part in driver_routes.parts(driver.route, driver.flavour, driver.version, system)
    )
    return tuple(name for name in names if name in packages and name in ours and name not in held)


def item(machine: Machine, names: tuple[str, ...]) -> Item:
    text = (
        f"hold {len(names)} packages of the driver at their version: an upgrade in passing would swap the user space "
        "under the loaded module"
    )
    return Item(Step.DRIVER, "driver.hold", machine.host_name, "driver", text, Hold(names))
