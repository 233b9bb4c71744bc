"""From a snapshot to what ``provision inspect`` says of the machine. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from checks.bdf import Bdf
from checks.snapshot import CouldNotLook, Snapshot
from provision.data.driver_packages import Flavour
from provision.data.gpu_arch import Architecture
from provision.host import boot, fitting, view
from provision.host.release.reasons import Look as Rows
from provision.host.view import PciFunction
from provision.inspect import functions, guests, holding, host, release, started, using
from provision.inspect.functions import Function
from provision.inspect.report import NONE, UNKNOWN, GpuReport, Report, told
from provision.inspect.seen import Seen
from provision.inspect.seen import seen as read
from provision.spec import Engine, Machine


def examine(snapshot: Snapshot, machine: Machine | None = None, *, recorded: bool = False) -> Report:
    """``machine``: what the inventory says of it, None without one; ``recorded``: the snapshot is of a tree."""
    seen = read(snapshot, machine, recorded)
    pinned = (machine.driver.version, machine.driver.flavour) if machine and machine.driver else None
    rows, missing = release.evidence(seen, pinned)
    gpus = tuple(_gpu(seen, gpu, rows, missing) for gpu in seen.gpus)
    facts = host.facts(seen)
    return Report(
        machine.name if machine else _host_name(seen),
        None if seen.functions is None else gpus,
        facts,
        tuple(holding.held(holder, seen.functions) for holder in seen.holders),
        (
            *host.findings(seen),
            *host.unserved(seen),
            *host.lost(seen),
            *holding.findings(seen.holders),
            *started.findings(seen),
        ),
        seen.look.unknown,
        _host_name(seen) if recorded and machine else None,
    )


def _gpu(seen: Seen, gpu: Function, rows: Rows, missing: Sequence[str]) -> GpuReport:
    parts = functions.companions(gpu, seen.functions or ())
    references = seen.references or ()
    nodes = using.nodes_of(gpu, parts, seen.minors)
    users = (
        *using.of_gpu(seen.openers, nodes, any(one.on_vfio for one in (gpu, *parts))),
        *guests.users(references, seen.look, gpu, parts),
    )
    unsure = [
        *(["open device files"] if not seen.all_openers else []),
        *(["virtual machines"] if seen.references is None else []),
        *guests.unsure(references, gpu, parts),
        *guests.reserved_perhaps(seen.look, gpu, parts),
    ]
    places = release.Places(seen.unread, holding.not_looked_at(seen.look))
    row = functions.architecture_of(gpu)
    wanted = {Bdf.parse(one.bdf) for one in seen.machine.gpus} if seen.machine else None
    minor = seen.minors.get(gpu.bdf)
    return GpuReport(
        str(gpu.bdf),
        told(_model(seen, gpu)),
        told(gpu.ids),
        told(row.name if row else None),
        row.flavours if row else None,
        told(gpu.driver),
        told(gpu.group),
        tuple(_companion(part) for part in parts),
        (
            *holding.of_gpu(seen.holders, gpu, parts),
            *(guests.held(one, gpu, parts) for one in references if guests.takes(one, gpu, parts)),
        ),
        (*places.unread, *places.kinds),
        users,
        tuple(unsure),
        _console(seen, gpu),
        release.way(
            rows,
            (*missing, *unsure),
            gpu,
            users,
            [one for one in references if guests.takes(one, gpu, parts)],
            places,
        ),
        _drivers(seen, gpu, row),
        str(minor) if minor is not None else UNKNOWN if gpu.driver in (None, "nvidia") else NONE,
        tuple(
            f"{container.id} ({container.path})" for container in seen.containers if container.has_any(nodes)
        ),
        None if wanted is None else gpu.bdf in wanted,
    )


def _host_name(seen: Seen) -> str:
    for path in ("/etc/hostname", "/proc/sys/kernel/hostname"):
        try:
            name = (seen.look.snapshot.text(path) or "").strip()
        except CouldNotLook:
            continue
        if name:
            return name
    return UNKNOWN


def _model(seen: Seen, gpu: Function) -> str | None:
    models = seen.look.attempt("models", lambda: view.models(seen.look.snapshot)) or {}
    return models.get(gpu.bdf) or gpu.name


def _companion(part: Function) -> Mapping[str, Any]:
    note = ""
    if part.is_bridge:
        note = "a bridge: it is skipped, never unbound"
    elif part.is_nvidia and part.pci_class == "0403":
        note = "all boards with this chip have this id: an ids= list takes the sound of every one of them"
    return {
        "bdf": str(part.bdf),
        "ids": told(part.ids),
        "class": told(part.class_name or part.pci_class),
        "driver": told(part.driver),
        "iommu_group": told(part.group),
        "bridge": part.is_bridge,
        "note": note,
    }


def _console(seen: Seen, gpu: Function) -> str:
    if gpu.seen is None:
        return UNKNOWN
    if not gpu.seen.boot_vga:
        return NONE
    screens = seen.look.attempt("screens", lambda: view.displays(seen.look.snapshot)) or {}
    alone = "the firmware's console is on it, and it is the only screen" if set(screens) <= {gpu.bdf} else ""
    return alone or "the firmware's console is on it; there are other screens"


def _drivers(seen: Seen, gpu: Function, row: Architecture | None) -> tuple[Mapping[str, Any], ...]:
    """What fits this GPU on the kernel that runs and the suite of the machine, as far as both are known."""
    if row is None or not gpu.device:
        return ()
    kernel = seen.look.attempt("running kernel", lambda: boot.running_kernel(seen.look.snapshot)) or UNKNOWN
    guests_ = seen.machine.guests if seen.machine else ()
    engines = tuple(service.engine for guest in guests_ for service in guest.services)
    return _fitting(gpu.device, kernel, _suite(seen), engines, _chosen(seen))


Chosen = tuple[tuple[str, Flavour, tuple[str, ...]], ...]
"""Version, flavour, and whether it is loaded, pinned, or both."""


def _chosen(seen: Seen) -> Chosen:
    """The drivers that matter on this machine before all others."""
    found: dict[tuple[str, Flavour], list[str]] = {}
    if seen.loaded is not None and seen.loaded.version != NONE:
        found.setdefault((seen.loaded.version, _flavour(seen.loaded.flavour)), []).append("loaded")
    pin = seen.machine.driver if seen.machine else None
    if pin is not None:
        found.setdefault((pin.version, _flavour(pin.flavour)), []).append("pinned")
    return tuple((version, flavour, tuple(states)) for (version, flavour), states in found.items())


def _flavour(name: str) -> Flavour:
    return "open" if name == "open" else "proprietary"


@cache
def _fitting(
    device: str, kernel: str, suite: str, engines: tuple[Engine, ...], chosen: Chosen
) -> tuple[Mapping[str, Any], ...]:
    """Once for all GPUs of a kind: what is loaded or pinned first, then what fits."""
    gpu = PciFunction(Bdf(0, 0, 0, 0), f"0x{device}", "0x030000", None, None, None)
    mine = [
        (found, states)
        for version, flavour, states in chosen
        if (found := fitting.fitting_driver(version, flavour, [gpu], kernel, suite, engines)) is not None
    ]
    known = {(found.version, found.flavour) for found, _ in mine}
    rest = fitting.fitting_drivers([gpu], kernel, suite, engines)
    return tuple(
        {
            "branch": found.branch,
            "version": found.version,
            "flavour": found.flavour,
            "routes": list(found.routes),
            "state": list(states),
            "fits": found.fits,
            "why_not": list(found.why_not),
            "notes": list(found.notes),
        }
        for found, states in (
            *mine,
            *((one, ()) for one in rest if (one.version, one.flavour) not in known),
        )
    )


def _suite(seen: Seen) -> str:
    try:
        text = seen.look.snapshot.text("/etc/os-release") or ""
    except CouldNotLook:
        return UNKNOWN
    pairs = dict(line.partition("=")[::2] for line in text.splitlines())
    return pairs.get("VERSION_CODENAME", UNKNOWN).strip("\"'")
