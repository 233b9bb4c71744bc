"""Does the fabric manager belong on this machine, and is it there in the driver's own version? Pure."""

from __future__ import annotations

import re

from checks.snapshot import CouldNotLook
from provision.data.driver_packages import upstream
from provision.data.gpu_arch import NEWER, architecture
from provision.host import apt_asked, view
from provision.host.driver_checks.scene import Said, Scene
from provision.host.driver_checks.seen import FABRIC_PACKAGE
from provision.plan import Refusal

NVSWITCHES = {"0x1af1": "A100", "0x22a3": "H100"}
"""PCI ids of NVSwitches, class 06.80, and the boards they come with (NVIDIA fabric manager user guide; pci.ids)."""

UNVERSIONED = 580
"""From this branch on the package's name carries no branch (NVIDIA driver installation guide)."""


def switches(scene: Scene) -> tuple[str, ...]:
    """What makes a fabric manager necessary: NVSwitches on the bus, or an adapter of NVLink 5 that is managed by
    software (SW_MNG in its vital product data; there the switches are no PCI functions)."""
    found = [
        f"NVSwitch {function.bdf}"
        for function in view.pci_functions(scene.snapshot)
        if function.pci_class[:6] == "0x0680" and function.device.lower() in NVSWITCHES
    ]
    if any(_has_nvlink5(function) for function in view.pci_functions(scene.snapshot)):
        _, output = scene.snapshot.command("nvlink-sw-mng")
        marks = [line.strip() for line in output.splitlines() if line.strip().startswith("/sys/")]
        found += [f"NVLink 5 ({mark})" for mark in marks]
    return tuple(found)


def _has_nvlink5(function: view.PciFunction) -> bool:
    """B200 and its like: Blackwell, and a 3D controller (03.02) where boards for slots are VGA controllers too."""
    row = architecture(function.device)
    return function.is_gpu and function.pci_class[:6] == "0x0302" and row.name in ("blackwell", NEWER.name)


def package(version: str) -> str:
    """The package of a driver's fabric manager."""
    branch = version.split(".")[0]
    return FABRIC_PACKAGE if int(branch) >= UNVERSIONED else f"{FABRIC_PACKAGE}-{branch}"


def judge(scene: Scene) -> Said:
    there = {
        name: found.version
        for name, found in scene.packages.items()
        if re.fullmatch(rf"{FABRIC_PACKAGE}(-\d+)?", name) and found.whole
    }
    why = switches(scene)
    if not why:
        code, output = scene.snapshot.command("fabric-manager-unit") if there else (1, "")
        if there and code == 0 and output.strip() == "enabled":
            yield (
                f"{', '.join(there)} is enabled and the machine has no NVSwitch: it fails at each boot "
                f"(NV_WARN_NOTHING_TO_DO); systemctl disable --now {FABRIC_PACKAGE}"
            )
        return
    loaded = None if scene.driver else view.driver(scene.snapshot)
    version = scene.driver.version if scene.driver else loaded[0] if loaded else None
    if version is None:
        return
    fitting = [name for name, found in there.items() if upstream(found) == version]
    if fitting:
        return
    seen = ", ".join(f"{name} {found}" for name, found in there.items()) or "no fabric manager is installed"
    needed = f"{', '.join(why[:2])}{' …' if len(why) > 2 else ''} needs the fabric manager {version}"
    command = f"apt-get install {package(version)}={version}-1 && systemctl enable --now {FABRIC_PACKAGE}"
    if _archive_comes_first(scene):
        yield f"{needed}: once this run has added NVIDIA's repository, {command}"
        return
    yield Refusal(
        "machine.driver",
        f"{needed}, and {seen}{' is' if there else ''}",
        "without it, in exactly the driver's version, every CUDA program ends with error 802",
        f"{command} (NVIDIA's repository and Ubuntu's archive have it)",
    )


def _archive_comes_first(scene: Scene) -> bool:
    """Has the plan to add the repository that brings it? Then nobody could install it before."""
    if not scene.installing or scene.driver is None or scene.driver.route != "nvidia":
        return False
    try:
        return apt_asked.repository_is_unknown(scene.snapshot)
    except CouldNotLook:
        return False
