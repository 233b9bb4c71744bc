"""Observes: NVML before, every chosen GPU at work in a child of its own, NVML after. Gives a record."""

from __future__ import annotations

import datetime
import json
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from checks import child, remote
from checks.errors import BadInput, Unreachable
from checks.gpus.supervise import Reading
from checks.load.busy import holders, seen, too_little
from checks.load.evidence import KIND, PATH
from checks.load.options import Options
from checks.load.turn import Turn
from checks.load.workers import Worker, attend
from checks.record import Record, Section, parse

KEPT = frozenset(
    {
        "handle",
        *(f"nvmlDeviceGet{name}" for name in ("Name", "UUID", "PciInfo", "MigMode", "MemoryInfo", "EccMode")),
        *(f"nvmlDeviceGet{kind}RunningProcesses" for kind in ("Compute", "Graphics", "MPSCompute")),
        *(f"nvmlDeviceGet{name}" for name in ("MaxPcieLinkGeneration", "GpuMaxPcieLinkGeneration")),
        *(f"nvmlDeviceGet{name}" for name in ("MaxPcieLinkWidth", "PcieReplayCounter", "RemappedRows")),
        *("nvmlDeviceGetMemoryBusWidth", "nvmlDeviceGetMaxClockInfo:sm", "nvmlDeviceGetMaxClockInfo:mem"),
        *("memv2", "ecc_unc_vol", "ecc_cor_vol", "temp", "tthr_slowdown", "tthr_gpu_max", "viol_thermal"),
    }
)
"""Keys of an NVML device that the rules of the load check read."""


def observe(
    options: Options,
    chosen: Sequence[int] | None,
    *,
    force: bool,
    tell: Callable[[str], None] = lambda text: None,
) -> Record:
    """Loads the GPUs ``chosen`` (None: all) unless one is busy, and returns the record of it."""
    began = time.monotonic()
    measured: dict[str, Any] = {"options": asdict(options), "force": force, "chosen": None, "runs": []}
    before = _look(options)
    measured["before"] = _kept(before)
    devices = before.get("devices", [])
    wanted = list(chosen) if chosen is not None else list(range(len(devices)))
    measured["chosen"] = wanted
    ready = [index for index in wanted if index < len(devices) and _uuid(devices[index])]
    idle = all(seen(devices[index]) and not holders(devices[index]) for index in ready)
    turn = Turn(_address(devices[index]) for index in ready)
    measured["taken"] = [index for index in ready if _address(devices[index]) in turn.taken]
    may = idle or (force and not any(too_little(devices[index]) for index in ready))
    if ready and may and not measured["taken"]:
        targets = {index: _uuid(devices[index]) for index in ready if not _sliced(devices[index])}
        measured["runs"] = _run(targets, replace(options, shared=not idle), tell)
        measured["after"] = _kept(_look(options))
    turn.close()
    measured["took_s"] = round(time.monotonic() - began, 3)
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    section = Section(KIND, PATH, json.dumps(measured).encode())
    return Record(host=platform.node(), taken=now, sections=(section,), nvml=before)


def afar(host: str, options: Options, chosen: Sequence[int] | None, *, force: bool) -> Record:
    """The same on another machine, through ssh. Raises Unreachable."""
    asked = json.dumps({"chosen": chosen, "force": force})
    printed = remote.call(host, ["_probe", "load", "record", options.dump(), asked], options.longest())
    try:
        return parse(printed, host)
    except BadInput as error:
        cause = "a login script there may print to the standard output"
        raise Unreachable(f"{host} sent no record: {error}", cause=cause) from None


def _look(options: Options) -> dict[str, Any]:
    """What ``provcheck gpus`` reads, under its supervision: a GPU that hangs hides no other one."""
    return Reading(options.deadline).result()[0]


def _kept(dump: Mapping[str, Any]) -> dict[str, Any]:
    """Of an NVML dump what is judged here; all of it is in the record once."""
    whole = {key: value for key, value in dump.items() if key == "nvmlInit" or key.startswith("nvmlSystem")}
    devices = dump.get("devices", [])
    whole["devices"] = [{key: value for key, value in device.items() if key in KEPT} for device in devices]
    return whole


def _uuid(device: Mapping[str, Any]) -> str:
    uuid = device.get("nvmlDeviceGetUUID")
    return uuid if isinstance(uuid, str) else ""


def _address(device: Mapping[str, Any]) -> str:
    info = device.get("nvmlDeviceGetPciInfo")
    return str(info.get("busId")) if isinstance(info, dict) else ""


def _sliced(device: Mapping[str, Any]) -> bool:
    mode = device.get("nvmlDeviceGetMigMode")
    return isinstance(mode, list) and mode[:1] == [1]


def _run(targets: Mapping[int, str], options: Options, tell: Callable[[str], None]) -> list[dict[str, Any]]:
    workers: dict[int, Worker] = {}
    try:
        for index, uuid in targets.items():
            argv = child.self_command("_probe", "load", "work", uuid, options.dump())
            workers[index] = Worker(argv, environment(uuid), options.allowed)
        everyone = list(workers.values())
        tell(f"starting on {len(everyone)} GPU(s)")
        attend(everyone, lambda worker: bool(worker.waiting))
        for index, worker in workers.items():
            if worker.running:
                tell(f"gpu{index}: copies between host and GPU")
                worker.tell()
                attend([worker], lambda worker: bool(worker.waiting))
        tell(f"memory and {options.seconds:g} s of computing, all GPUs together")
        for worker in everyone:
            if worker.running:
                worker.tell()
        attend(everyone, lambda worker: False)
    finally:
        for worker in workers.values():
            worker.abandon()
    return [
        {"index": index, "uuid": targets[index], "steps": worker.steps, "ended": worker.ended}
        for index, worker in workers.items()
    ]


def environment(uuid: str, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What the child of one GPU sees: that GPU alone, and no cache of compiled kernels in somebody's home."""
    changed = {"CUDA_VISIBLE_DEVICES": uuid, "CUDA_CACHE_DISABLE": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    return {**{key: value for key, value in environ.items() if key != "CUDA_LAUNCH_BLOCKING"}, **changed}
