"""From a snapshot to what ``provision inspect`` says of the machine. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from checks.bdf import Bdf
from checks.snapshot import Snapshot
from provision.host import view
from provision.inspect import functions, holding, release, texts, using
from provision.inspect.functions import Function
from provision.inspect.look import Look
from provision.inspect.report import NONE, UNKNOWN, GpuReport, Report, told
from provision.spec import Machine


def examine(snapshot: Snapshot, machine: Machine | None = None, *, recorded: bool = False, name: str = "") -> Report:
    """``machine``: what the inventory says of it, None without one; ``recorded``: the snapshot is of a tree."""
    look = Look(snapshot, recorded)
    said = texts.gather(snapshot)
    everything = look.attempt("GPUs", lambda: functions.functions(look, said))
    all_holders = holding.holders(look)
    minors = look.attempt("device minors", lambda: view.minors(snapshot)) or {}
    opened = look.attempt("users of the GPUs", lambda: using.openers(look))
    pinned = (machine.driver.version, machine.driver.flavour) if machine and machine.driver else None
    rows, missing = release.evidence(look, pinned)
    wanted = {Bdf.parse(gpu.bdf) for gpu in machine.gpus} if machine else None
    gpus = []
    for gpu in (one for one in everything or () if one.is_gpu):
        parts = functions.companions(gpu, everything or ())
        users = using.of_gpu(opened or (), gpu, parts, minors)
        row = functions.architecture_of(gpu)
        gpus.append(
            GpuReport(
                str(gpu.bdf),
                told(_model(look, gpu)),
                told(gpu.ids),
                told(row.name if row else None),
                row.flavours if row else None,
                told(gpu.driver),
                told(gpu.group),
                tuple(_companion(part) for part in parts),
                holding.of_gpu(all_holders, gpu, parts),
                holding.not_looked_at(look),
                users,
                ("open device files",) if opened is None else (),
                _console(look, gpu),
                release.way(rows, missing, gpu, users),
                (),
                str(minors[gpu.bdf]) if gpu.bdf in minors else UNKNOWN,
                (),
                None if wanted is None else gpu.bdf in wanted,
            )
        )
    return Report(
        name or (machine.name if machine else _host_name(look)),
        None if everything is None else tuple(gpus),
        _host(look),
        tuple(holding.held(holder, everything or ()) for holder in all_holders),
        (),
        look.unknown,
    )


def _host_name(look: Look) -> str:
    try:
        return (look.snapshot.text("/etc/hostname") or "").strip() or UNKNOWN
    except Exception:  # noqa: BLE001
        return UNKNOWN


def _model(look: Look, gpu: Function) -> str | None:
    models = look.attempt("models", lambda: view.models(look.snapshot)) or {}
    return models.get(gpu.bdf) or gpu.name


def _companion(part: Function) -> Mapping[str, Any]:
    return {
        "bdf": str(part.bdf),
        "ids": told(part.ids),
        "class": told(part.class_name or part.pci_class),
        "driver": told(part.driver),
        "iommu_group": told(part.group),
        "bridge": part.is_bridge,
    }


def _console(look: Look, gpu: Function) -> str:
    if gpu.seen is None:
        return UNKNOWN
    return "the firmware's console is on it" if gpu.seen.boot_vga else NONE


def _host(look: Look) -> Mapping[str, Any]:
    driver = look.attempt("loaded driver", lambda: view.driver(look.snapshot))
    return {"driver": None if driver is None else {"version": driver[0], "flavour": driver[1]}}
