"""What another route left on a host: two routes end in modules and libraries of two versions. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from checks.snapshot import Snapshot
from provision.data.driver_packages import PARTS
from provision.host import driver_seen
from provision.host.driver_seen import ModuleFile
from provision.plan import Refusal

KPRO_MODULES = "updates/kpro"
WHERE = "machine.driver"
_DEBIAN = frozenset(part.package for part in PARTS)
_DEBIANS_ALONE = frozenset(
    (
        "nvidia-alternative",
        "nvidia-smi",
        "nvidia-open-kernel-dkms",
        "nvidia-open-kernel-support",
        "nvidia-driver-bin",
    )
)
# Names of NVIDIA's own repository, Ubuntu and Debian's metapackages; what only configures is nobody's driver.
_DRIVERS = (
    "nvidia-driver",
    "nvidia-headless",
    "linux-modules-nvidia",
    "nvidia-dkms",
    "nvidia-kernel",
    "nvidia-open",
)


def foreign(
    route: str, snapshot: Snapshot, modules: Sequence[ModuleFile], packages: Mapping[str, str]
) -> list[Refusal]:
    """Why this route must not install beside what is there."""
    return [
        *(_run_installer(snapshot) if route != "run" else ()),
        *(
            _beside_files(route, modules, packages)
            if route in ("prebuilt", "run")
            else _beside_packages(route, modules, packages)
        ),
    ]


def _run_installer(snapshot: Snapshot) -> list[Refusal]:
    marks = [path for path in driver_seen.RUN_MARKS if snapshot.data("stat", path) is not None]
    if not marks:
        return []
    return [
        Refusal(
            WHERE,
            f"{marks[0]} is there: a driver was installed by NVIDIA's .run installer",
            "its files and those of another route overwrite each other",
            "nvidia-uninstall --silent, then run again",
        )
    ]


def is_driver(name: str) -> bool:
    return name in _DEBIAN or name.startswith(_DRIVERS) or ("nvidia" in name and name.endswith("-dkms"))


def _beside_files(route: str, modules: Sequence[ModuleFile], packages: Mapping[str, str]) -> list[Refusal]:
    theirs = sorted(filter(is_driver, packages))
    if theirs:
        return [
            Refusal(
                f"{WHERE}.route",
                "packages of another route are installed: "
                + ", ".join(f"{name} {packages[name]}" for name in theirs),
                f"modprobe and the linker could take theirs instead of those of route {route!r}",
                f"apt-get purge {' '.join(theirs)}, or set the route that they came by",
            )
        ]
    ours = [module for module in modules if f"/{KPRO_MODULES}/" in module.path]
    if route == "run":
        return _beside_ours(ours)
    strange = [module for module in modules if module not in ours]
    if strange:
        return [
            Refusal(
                WHERE,
                f"{strange[0].path} ({strange[0].version or 'no version'}) belongs to no package that kpro knows",
                "modprobe could take it instead of the prebuilt one",
                "remove it the way it was put there, then depmod -a",
            )
        ]
    return []


def _beside_ours(ours: Sequence[ModuleFile]) -> list[Refusal]:
    if not ours:
        return []
    folder = ours[0].path.rsplit("/", 1)[0]
    return [
        Refusal(
            f"{WHERE}.route",
            f"{ours[0].path} was put there by route prebuilt",
            "modprobe could take it instead of what this route installs",
            f"rm -r {folder} && depmod {ours[0].kernel}, or set route='prebuilt'",
        )
    ]


def _beside_packages(route: str, modules: Sequence[ModuleFile], packages: Mapping[str, str]) -> list[Refusal]:
    refusals = _beside_ours([module for module in modules if f"/{KPRO_MODULES}/" in module.path])
    theirs = sorted(name for name in packages if is_driver(name) and not _OWN[route](name))
    if theirs:
        refusals.append(
            Refusal(
                f"{WHERE}.route",
                "packages of another archive are installed: "
                + ", ".join(f"{name} {packages[name]}" for name in theirs),
                "packages of two archives overwrite each other, and end in two versions",
                f"apt-get purge {' '.join(theirs)}, or set managed=False and keep them",
            )
        )
    return refusals


def _is_debians(name: str) -> bool:
    """The parts of Debian's driver, its metapackages and helpers."""
    return (
        name in _DEBIAN
        or name in ("nvidia-driver", "nvidia-driver-bin", "nvidia-kernel-common")
        or name.startswith("nvidia-driver-libs")
    )


def _is_nvidias(name: str) -> bool:
    """Packages of NVIDIA's repository: what Debian's driver alone has, and Ubuntu's server branches, are others'."""
    return name not in _DEBIANS_ALONE and not _is_ubuntus(name)


def _is_ubuntus(name: str) -> bool:
    """Ubuntu's server branches and the modules that it signs, DKMS not among them."""
    return name.startswith(
        ("linux-modules-nvidia-", "linux-objects-nvidia-", "linux-signatures-nvidia-")
    ) or (re.search(r"-[0-9]{3}-server(-open)?$", name) is not None and not name.startswith("nvidia-dkms"))


_OWN = {"debian": _is_debians, "nvidia": _is_nvidias, "ubuntu": _is_ubuntus}
