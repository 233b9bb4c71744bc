"""Step 7, guests that have the driver's user space as files of their own: by packages, or by NVIDIA's installer without
its kernel module. Equal to the module of the host, to the last digit. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from checks.snapshot import CouldNotLook, Snapshot
from provision.data.driver_packages import upstream
from provision.data.run_installer import UNINSTALL
from provision.driver.archive import Prebuilt
from provision.driver.installer import Installer
from provision.guest.userspace import NEEDED, libraries, module_version, unknown
from provision.host import apt_asked, apt_question, driver_repository, driver_seen
from provision.host.driver_foreign import is_driver
from provision.host.driver_repository import AddRepository
from provision.plan import Item, Plan, Refusal, Step
from provision.spec import Driver, Guest, Machine


@dataclass(frozen=True)
class ByInstaller:
    """The version, by this installer of the controller."""

    version: str
    installer: Installer


@dataclass(frozen=True)
class ByPackages:
    """The packages of this driver; ``repository`` where apt of the guest does not know their archive yet."""

    driver: Driver
    repository: AddRepository | None


def wants(machine: Machine, guest: Guest) -> bool:
    return guest.managed and bool(guest.gpus) and guest.userspace in ("packages", "run")


def requests(machine: Machine, guest: Guest) -> list[str]:
    """What the snapshot of the guest has to look at."""
    if not wants(machine, guest) or machine.driver is None:
        return []
    wanted = ["file:/proc/driver/nvidia/version", f"stat:{UNINSTALL}", *driver_seen.guest_requests()]
    if guest.userspace == "packages":
        wanted += ["file:/etc/os-release", *apt_asked.requests(by_packages(machine.driver), "guest")]
    return wanted


def by_packages(driver: Driver) -> Driver:
    """The driver as a guest's packages bring it: Debian's beside Debian's on the host, NVIDIA's beside any other."""
    route = "debian" if driver.route == "debian" else "nvidia"
    return Driver(version=driver.version, flavour=driver.flavour, route=route)


def plan(
    machine: Machine,
    guest: Guest,
    host: Snapshot,
    inside: Snapshot | None,
    held: Sequence[Prebuilt | Installer],
) -> Plan:
    """``userspace.own`` where the guest has not the version of the host's module. ``inside`` None: it does not run yet;
    what speaks against it is then told when it does."""
    if not wants(machine, guest):
        return Plan(machine.name)
    where = f"machine.guests[{machine.guests.index(guest)}].userspace"
    if machine.driver is None:
        loaded = module_version(machine, host)
        refusal = Refusal(
            where,
            f"userspace={guest.userspace!r} follows machine.driver, and none is pinned (loaded is {loaded or 'none'})",
            "user space of another version than the module does not work",
            "pin the driver, or set userspace='bind'",
        )
        return Plan(machine.name, (), (refusal,))
    try:
        if inside is not None and _done(machine.driver.version, guest, inside, machine.driver):
            return Plan(machine.name)
        refusals = _refusals(where, machine.driver, guest, inside, held)
        if refusals:
            return Plan(machine.name, (), tuple(refusals))
        return Plan(machine.name, (_item(machine, guest, machine.driver, inside, held),))
    except CouldNotLook as error:
        return Plan(machine.name, (), (unknown(where, error),))


def _done(version: str, guest: Guest, inside: Snapshot, driver: Driver) -> bool:
    found = libraries(inside)
    there = all(any(path.endswith(f"/{name}.{version}") for path in found) for name in NEEDED)
    if not there or any(not path.endswith(f".so.{version}") for path in found):
        return False
    if guest.userspace == "run":
        return inside.data("stat", UNINSTALL) is not None
    packages = driver_seen.packages(inside)
    return all(
        upstream(packages.get(part.package, "-")) == version
        for part in apt_question.user_space(by_packages(driver))
        if part.needed
    )


def _refusals(
    where: str,
    driver: Driver,
    guest: Guest,
    inside: Snapshot | None,
    held: Sequence[Prebuilt | Installer],
) -> list[Refusal]:
    refusals: list[Refusal] = []
    if guest.userspace == "run":
        refusals += [Refusal(where, *reason) for reason in _installer(driver, held).wrong()]
    if inside is None:
        return refusals
    if guest.userspace == "run":
        theirs = sorted(filter(is_driver, driver_seen.packages(inside)))
        if theirs:
            refusals.append(
                Refusal(
                    where,
                    f"the container has packages of the driver: {', '.join(theirs)}",
                    "their files and the installer's overwrite each other",
                    f"in the container: apt-get purge {' '.join(theirs)}; or set userspace='packages'",
                )
            )
        return refusals
    if inside.data("stat", UNINSTALL) is not None:
        refusals.append(
            Refusal(
                where,
                f"{UNINSTALL} is there in the container: NVIDIA's installer was used",
                "its files and those of packages overwrite each other",
                "in the container: nvidia-uninstall --silent; or set userspace='run'",
            )
        )
    wanted = by_packages(driver)
    if wanted.route == "nvidia":
        refusals += driver_repository.refusals(inside)
    return refusals + apt_asked.refusals(inside, wanted, "guest")


def _installer(driver: Driver, held: Sequence[Prebuilt | Installer]) -> Installer:
    for one in held:
        if isinstance(one, Installer) and one.version == driver.version:
            return one
    raise CouldNotLook("the controller did not look for the driver's installer")


def _item(
    machine: Machine,
    guest: Guest,
    driver: Driver,
    inside: Snapshot | None,
    held: Sequence[Prebuilt | Installer],
) -> Item:
    payload: ByInstaller | ByPackages
    if guest.userspace == "run":
        payload = ByInstaller(driver.version, _installer(driver, held))
        how = "NVIDIA's installer, without its kernel module"
    else:
        wanted = by_packages(driver)
        new = inside is not None and wanted.route == "nvidia" and apt_asked.repository_is_unknown(inside)
        payload = ByPackages(wanted, driver_repository.to_add(wanted, inside) if new and inside else None)
        how = "packages of NVIDIA's repository" if wanted.route == "nvidia" else "Debian's packages"
    text = f"give {guest.name} the user space of driver {driver.version} by {how}"
    name = machine.guest_host_name(guest)
    return Item(Step.USER_SPACE, "userspace.own", name, driver.version, text, payload)
