"""What the judges of one machine's driver share, and whether the driver is in place for a kernel. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from checks.snapshot import CouldNotLook, Snapshot
from provision.data import driver_packages, driver_routes
from provision.driver.archive import Prebuilt
from provision.driver.installer import Installer
from provision.host import apt_question, driver_seen
from provision.host.driver_seen import ModuleFile, os_release
from provision.spec import Driver, Machine


@dataclass(frozen=True)
class Case:
    """What the judges of one machine share."""

    machine: Machine
    driver: Driver
    snapshot: Snapshot
    held: Sequence[Prebuilt | Installer]
    kernels: tuple[str, ...]
    modules: tuple[ModuleFile, ...]
    packages: dict[str, str]

    @property
    def system(self) -> str:
        return os_release(self.snapshot).get("ID", "")

    @property
    def pin(self) -> str:
        return f"{self.driver.version} {self.driver.flavour}"


def in_place(case: Case, kernel: str) -> bool:
    """Would modprobe find the pinned module for this kernel, put there by the pinned route, and is the rest whole?"""
    driver = case.driver
    found = [module for module in case.modules if module.kernel == kernel]
    if not found or any(
        (module.version, module.flavour, module.indexed) != (driver.version, driver.flavour, True)
        or _release(module) != kernel
        for module in found
    ):
        return False
    if driver.route == "run":
        marks = (*driver_seen.RUN_MARKS[:1], cuda(driver))
        return all(case.snapshot.data("stat", path) is not None for path in marks)
    if driver.route == "prebuilt":
        return any(
            receipt.whole
            and (receipt.kernel, receipt.route, receipt.version, receipt.flavour)
            == (kernel, "prebuilt", driver.version, driver.flavour)
            for receipt in driver_seen.receipts(case.snapshot)
        )
    return all(
        driver_packages.upstream(case.packages.get(part.package, "-")) == driver.version
        for part in driver_routes.parts(driver.route, driver.flavour, driver.version, case.system)
        if part.needed and part.exact
    )


def _release(module: ModuleFile) -> str:
    return module.vermagic.split()[0] if module.vermagic else ""


def cuda(driver: Driver) -> str:
    return f"{apt_question.LIBRARIES}/libcuda.so.{driver.version}"


def installer(case: Case) -> Installer:
    """Raises CouldNotLook when the controller did not look."""
    for held in case.held:
        if isinstance(held, Installer) and held.version == case.driver.version:
            return held
    raise CouldNotLook("the controller did not look for the driver's installer")
