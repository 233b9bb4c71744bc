"""What another route left on a host: two routes end in modules and libraries of two versions. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from checks.snapshot import Snapshot
from provision.data.driver_packages import PARTS
from provision.host import driver_seen
from provision.host.driver_seen import ModuleFile
from provision.plan import Refusal

KPRO_MODULES = "updates/kpro"
WHERE = "machine.driver"
_DEBIAN = frozenset(part.package for part in PARTS)
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
        *_run_installer(snapshot),
        *(
            _beside_prebuilt(snapshot, modules, packages)
            if route == "prebuilt"
            else _beside_debian(modules, packages)
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


def _is_driver(name: str) -> bool:
    return name in _DEBIAN or name.startswith(_DRIVERS) or ("nvidia" in name and name.endswith("-dkms"))


def _beside_prebuilt(
    snapshot: Snapshot, modules: Sequence[ModuleFile], packages: Mapping[str, str]
) -> list[Refusal]:
    theirs = sorted(filter(_is_driver, packages))
    if theirs:
        return [
            Refusal(
                f"{WHERE}.route",
                "packages of another route are installed: "
                + ", ".join(f"{name} {packages[name]}" for name in theirs),
                "modprobe and the linker could take theirs instead of the prebuilt ones",
                f"apt-get purge {' '.join(theirs)}, or set route='debian'",
            )
        ]
    strange = [module for module in modules if f"/{KPRO_MODULES}/" not in module.path]
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


def _beside_debian(modules: Sequence[ModuleFile], packages: Mapping[str, str]) -> list[Refusal]:
    refusals = []
    ours = [module for module in modules if f"/{KPRO_MODULES}/" in module.path]
    if ours:
        folder = ours[0].path.rsplit("/", 1)[0]
        refusals.append(
            Refusal(
                f"{WHERE}.route",
                f"{ours[0].path} was put there by route prebuilt",
                "modprobe could take it instead of the packaged one",
                f"rm -r {folder} && depmod {ours[0].kernel}, or set route='prebuilt'",
            )
        )
    theirs = sorted(
        name for name in packages if _is_driver(name) and name not in _DEBIAN and not _is_debians(name)
    )
    if theirs:
        refusals.append(
            Refusal(
                f"{WHERE}.route",
                "packages of another archive are installed: "
                + ", ".join(f"{name} {packages[name]}" for name in theirs),
                "Debian's packages and NVIDIA's own overwrite each other",
                f"apt-get purge {' '.join(theirs)}, or set managed=False and keep them",
            )
        )
    return refusals


def _is_debians(name: str) -> bool:
    """Debian's metapackages and helpers beside the parts of a driver."""
    return name in ("nvidia-driver", "nvidia-driver-bin", "nvidia-driver-libs", "nvidia-kernel-common") or (
        name.startswith("nvidia-driver-libs")
    )
