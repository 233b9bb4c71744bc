"""Which drivers fit given GPUs, a kernel, a suite and engines: for people who choose a pin. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from provision.data import archives, drivers, engines, gpu_arch, kernels
from provision.data.driver_packages import Flavour
from provision.host.flavour import impossible
from provision.host.view import PciFunction
from provision.spec import Driver

FLAVOURS: tuple[Flavour, ...] = ("open", "proprietary")


class WantsCuda(Protocol):
    """An engine of the inventory, or anything that names one."""

    @property
    def kind(self) -> str: ...

    @property
    def version(self) -> str: ...


@dataclass(frozen=True)
class Fitting:
    """A driver and whether it can be used here. ``routes`` bring it; ``why_not`` empty: it fits; ``notes`` are what
    speaks neither for nor against (an ended branch, a trial build that is wanted)."""

    branch: str
    version: str
    flavour: Flavour
    routes: tuple[str, ...]
    why_not: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def fits(self) -> bool:
        return not self.why_not


def fitting_drivers(
    gpu_functions: Sequence[PciFunction],
    kernel: str,
    suite: str,
    wanted: Iterable[WantsCuda] = (),
    month: str = drivers.CHECKED[:7],
) -> tuple[Fitting, ...]:
    """One row for each branch and flavour that the GPUs can take, what fits first, the newest of each first; for a
    branch the newest version that fits, else the newest. ``suite`` is a codename (``trixie``), ``kernel`` a release.

    A GPU that no current branch serves (a Kepler console card) has no say beside others. None of the functions is a GPU
    that a driver serves: no rows.
    """
    found = [gpu_arch.architecture(function.device) for function in gpu_functions if function.is_gpu]
    served = list(dict.fromkeys(row for row in found if row.flavours))
    needs = tuple(wanted)
    rows: list[Fitting] = []
    for branch in reversed(drivers.BRANCHES):
        versions = [row.version for row in drivers.DRIVERS if row.branch == branch.branch]
        for flavour in FLAVOURS if served and versions else ():
            tried = [
                _row(branch, version, flavour, served, kernel, suite, needs, month)
                for version in sorted(versions, key=drivers.number, reverse=True)
            ]
            rows.append(next((row for row in tried if row.fits), tried[0]))
    return tuple(sorted(rows, key=lambda row: (not row.fits, _ended(row.branch, month))))


def fitting_driver(
    version: str,
    flavour: Flavour,
    gpu_functions: Sequence[PciFunction],
    kernel: str,
    suite: str,
    wanted: Iterable[WantsCuda] = (),
    month: str = drivers.CHECKED[:7],
) -> Fitting | None:
    """One driver, such as the one that is loaded; None where nothing is known of its branch."""
    found = [gpu_arch.architecture(function.device) for function in gpu_functions if function.is_gpu]
    served = list(dict.fromkeys(row for row in found if row.flavours))
    name = version.partition(".")[0]
    branch = next((row for row in drivers.BRANCHES if row.branch == name), None)
    if branch is None or not served:
        return None
    return _row(branch, version, flavour, served, kernel, suite, tuple(wanted), month)


def _ended(branch: str, month: str) -> bool:
    return any(row.branch == branch and not row.supported(month) for row in drivers.BRANCHES)


def _row(
    branch: drivers.Branch,
    version: str,
    flavour: Flavour,
    served: Sequence[gpu_arch.Architecture],
    kernel: str,
    suite: str,
    needs: Sequence[WantsCuda],
    month: str,
) -> Fitting:
    pin = Driver(version=version, flavour=flavour)
    against = [f"{row.name}: {why}" for row in served if (why := impossible(pin, row))]
    notes = [] if branch.supported(month) else [ended(branch)]
    built = kernels.verdict(version, kernel)
    if built.answer == "fails":
        against.append(f"does not compile on {kernel}: {built.why} ({built.source})")
    elif built.answer == "unknown":
        notes.append(f"on {kernel} it is compiled on trial first: {built.why}")
    for engine in needs:
        short = too_old_for(version, engine)
        if short:
            against.append(short)
    routes = routes_of(version, suite)
    return Fitting(branch.branch, version, flavour, routes, tuple(against), tuple(notes))


def ended(branch: drivers.Branch) -> str:
    """What to know of a branch that NVIDIA looks after no longer."""
    when = f"since {branch.until}" if branch.until else "any more"
    return f"branch {branch.branch} gets no fixes {when}; its successor is {branch.successor}"


def too_old_for(version: str, engine: WantsCuda) -> str | None:
    """Why this driver cannot run an engine; None where it can or nothing is known of the engine. Within a CUDA major
    version every runtime works on the first driver of that version (CUDA compatibility guide)."""
    cuda = cuda_of(engine)
    floor = drivers.floor_for(cuda) if cuda else None
    if floor is None or drivers.number(version) >= drivers.number(floor.driver):
        return None
    what = f"{engine.kind} {engine.version} brings CUDA {cuda}"
    return f"{what}, which needs driver {floor.driver} or newer, not {version}"


def cuda_of(engine: WantsCuda) -> str | None:
    """The CUDA of an engine's own packages; None where its version has no row, or no GPU code."""
    try:
        return engines.release_of(engine.kind, engine.version).cuda
    except engines.UnknownEngine:
        return None


def routes_of(version: str, suite: str) -> tuple[str, ...]:
    """The routes that may bring this version to a suite, as an inventory names them."""
    row = archives.suite_of(suite)
    found = [
        "debian"
        if any((carried.suite, carried.version) == (suite, version) for carried in drivers.DEBIAN)
        else "",
        "nvidia" if row and row.repository else "",
        "ubuntu" if row and row.id == "ubuntu" else "",
        "prebuilt",
        "run",
    ]
    return tuple(filter(None, found))
