"""Two drivers at once: modules of two versions for one kernel, packages of two versions or two archives, a .run beside
packages. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from provision.host import driver_seen
from provision.host.driver_checks.scene import Said, Scene
from provision.host.driver_seen import ModuleFile
from provision.plan import Refusal

_VENDORS = re.compile(
    r"nvidia-driver-(cuda|pinning-[\d.]+)|nvidia-kernel-open-dkms|nvidia-open(-\d+)?|cuda-drivers(-\d+)?"
)
"""Names that NVIDIA's repository has and Debian's archive has not (NVIDIA driver installation guide)."""

_DEBIANS = frozenset({"nvidia-open-kernel-dkms", "nvidia-open-kernel-support"})
"""Names that Debian's archive has and NVIDIA's repository has not (the file lists of both)."""


def judge(scene: Scene) -> Said:
    """Two modules for one kernel are refused before an install or a boot. What lies beside another route's packages is
    refused by the route that installs (``driver_foreign``), and told here where nothing is installed."""
    for kernel, rows in two_versions(driver_seen.modules(scene.snapshot)).items():
        seen = f"kernel {kernel} has two NVIDIA modules: " + ", ".join(
            f"{row.path} ({row.version})" for row in rows
        )
        why = "which of them modprobe takes is chance, and the user space fits one alone"
        step = (
            "remove the one that is not wanted the way it came (its package, dkms remove, nvidia-uninstall)"
        )
        if scene.installing or scene.rebooting:
            yield Refusal("machine.driver", seen, why, f"{step}, then depmod {kernel}")
        else:
            yield f"{seen}; {why} ({step}, then depmod {kernel})"
    if not scene.installing:
        yield from _beside(scene)


def _beside(scene: Scene) -> Iterator[str]:
    theirs, debians = two_archives(scene.packages)
    if theirs and debians:
        yield (
            f"packages of NVIDIA's repository ({', '.join(theirs)}) and Debian's ({', '.join(debians)}) overwrite each "
            f"other's files: apt-get purge {' '.join(debians)}, or purge the other set"
        )
    marks = [path for path in driver_seen.RUN_MARKS if scene.snapshot.data("stat", path) is not None]
    drivers = sorted(name for name in scene.packages if _is_driver(name))
    if marks and drivers:
        yield (
            f"{marks[0]} of NVIDIA's .run installer is there beside the packages {', '.join(drivers)}: both own the "
            "same libraries; nvidia-uninstall --silent and reinstall the packages, or purge the packages"
        )


def _is_driver(name: str) -> bool:
    return name.startswith(("nvidia-driver", "libcuda1", "nvidia-kernel", "nvidia-open", "cuda-drivers")) or (
        "nvidia" in name and name.endswith("-dkms")
    )


def two_versions(modules: Iterable[ModuleFile]) -> dict[str, tuple[ModuleFile, ...]]:
    """The modules of each kernel that has more than one version of them."""
    by_kernel: dict[str, list[ModuleFile]] = {}
    for module in modules:
        by_kernel.setdefault(module.kernel, []).append(module)
    return {
        kernel: tuple(rows) for kernel, rows in by_kernel.items() if len({row.version for row in rows}) > 1
    }


def two_archives(packages: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names that only NVIDIA's repository has, and names that only Debian has, among the installed."""
    names = sorted(packages)
    return (
        tuple(name for name in names if _VENDORS.fullmatch(name)),
        tuple(name for name in names if name in _DEBIANS),
    )
