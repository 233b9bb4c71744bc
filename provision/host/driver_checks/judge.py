"""Everything beside the driver itself that speaks against an install or a reboot, all reasons at once. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from checks.snapshot import CouldNotLook, Snapshot
from provision.host.driver_checks import (
    archive,
    branch,
    engines,
    fabric,
    headers,
    holds,
    mixed,
    modules,
    secure_boot,
    seen,
)
from provision.host.driver_checks.scene import Said, Scene
from provision.plan import Plan, Refusal, make_seen
from provision.spec import Machine


@dataclass(frozen=True)
class Judge:
    """One question. ``refused`` and ``told`` say in words when ``judge`` refuses and when it only tells ("": never).
    ``asked``: of machines with a pinned driver; of those and of every one that is about to boot; of all."""

    name: str
    judge: Callable[[Scene], Said]
    question: str
    refused: str
    told: str
    asked: Literal["pinned", "booting", "always"] = "pinned"


JUDGES = (
    Judge(
        "branch",
        branch.judge,
        "Does NVIDIA still look after the branch?",
        "",
        "the branch has ended; its successor is named",
    ),
    Judge(
        "archive",
        archive.judge,
        "Are Debian's own packages good for this machine?",
        "route debian on Proxmox VE 9.1 or later, with a Blackwell GPU, or with an engine of CUDA 13",
        "",
    ),
    Judge(
        "engines",
        engines.judge,
        "Can the engines of the guests run on the driver?",
        "an engine's CUDA needs a newer driver: both numbers are given",
        "it runs by minor-version compatibility only",
        asked="always",
    ),
    Judge(
        "secure boot",
        secure_boot.judge,
        "Will the kernel take the modules that DKMS compiles?",
        "Secure Boot is in force and the key of DKMS is not enrolled: the commands and the console's step are given",
        "it is in force and the key is enrolled",
    ),
    Judge(
        "headers",
        headers.judge,
        "Are the headers there, of this kernel and of each next one?",
        "route run without headers of a kernel that boots, or without the metapackage that brings the next ones",
        "the driver is in place, and the next kernel would come without headers",
    ),
    Judge(
        "other modules",
        modules.judge,
        "Would a boot lose another module of DKMS (drbd, i915, vendor-reset)? Are packages half-configured?",
        "a boot is planned into a kernel for which such a module is not installed; packages are half-configured: the "
        "module to blame is named",
        "no boot is planned; a module is broken, or is not what DKMS built",
        asked="booting",
    ),
    Judge(
        "mixed drivers",
        mixed.judge,
        "Are two drivers there at once?",
        "a kernel has modules of two versions",
        "packages of two archives, or a .run beside packages, and nothing is to be installed (an install is refused)",
    ),
    Judge(
        "holds",
        holds.judge,
        "Do holds stand in the way? Could an upgrade swap the user space under the module?",
        "packages that somebody holds at another version than the pin",
        "unattended-upgrades may take the driver's packages: kpro holds them; held headers beside kernels that go on",
    ),
    Judge(
        "fabric manager",
        fabric.judge,
        "Does the fabric manager belong here, and is it there in the driver's version?",
        "NVSwitches, or NVLink 5 managed by software, without it or with another version",
        "it is enabled and the machine has no NVSwitch",
    ),
)
"""Each answers for itself, so that one that cannot look hides none of the others."""


def requests(machine: Machine) -> list[str]:
    """What the snapshot has to look at for these judges."""
    return list(seen.REQUESTS) if machine.managed else []


def checks_plan(machine: Machine, snapshot: Snapshot, driver: Plan, rebooting: bool) -> Plan:
    """What speaks against carrying out ``driver``, the plan of the driver itself, and against a reboot. What could not
    be looked at is refused where something is about to change, and told where nothing is."""
    kinds = {item.kind for item in driver.items}
    installing = "driver.install" in kinds or bool(driver.refusals)
    scene = Scene(machine, snapshot, installing, rebooting, "kernel.hold" in kinds, "kernel.release" in kinds)
    refusals: list[Refusal] = []
    notes: list[str] = []
    for row in JUDGES:
        if not _is_asked(row, machine, rebooting):
            continue
        try:
            for said in row.judge(scene):
                if isinstance(said, Refusal):
                    refusals.append(said)
                else:
                    notes.append(said)
        except CouldNotLook as error:
            if installing or rebooting:
                refusals.append(
                    Refusal(
                        f"machine {machine.name}",
                        f"{row.name}: {error}",
                        "what could not be looked at is never taken for well",
                        make_seen(error),
                    )
                )
            else:
                notes.append(f"{row.name} could not be judged: {error}")
    return Plan(machine.name, (), tuple(refusals), tuple(notes))


def _is_asked(row: Judge, machine: Machine, rebooting: bool) -> bool:
    if row.asked == "always":
        return True
    return machine.managed and (machine.driver is not None or (row.asked == "booting" and rebooting))
