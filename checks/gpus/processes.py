"""Rules about memory: how much there is and is free, who holds it."""

from __future__ import annotations

from checks.data.boards import board_of, integrated
from checks.gpus.dump import PROCESS_KINDS, Gap, Gpu, Process
from checks.gpus.modes import mig_on, of_slices
from checks.gpus.rule import Outcome, Scene, failed, first_error, passed, skipped, unknown, unread, warned

GIB = 1 << 30
_V1, _V2 = "nvmlDeviceGetMemoryInfo", "memv2"
_KEYS = tuple(f"nvmlDeviceGet{kind}RunningProcesses" for kind in PROCESS_KINDS)

DRIVERS_OWN = 3 * GIB // 2
"""Memory in use with no process that is still the driver's own: it keeps 0.5 to 1.5 GiB, which the first form of
nvmlDeviceGetMemoryInfo counts as used and the second tells apart (0.6 GiB on a real H200)."""

_NOT_SAID = (1 << 64) - 1
"""NVML_VALUE_NOT_AVAILABLE, as a process's memory."""


def _bytes(gpu: Gpu, name: str, *keys: str) -> int | None:
    for key in keys:
        info = gpu.struct(key)
        value = None if isinstance(info, Gap) else info.get(name)
        if isinstance(value, int):
            return value
    return None


def used(gpu: Gpu) -> int | None:
    """Bytes that somebody holds, without what the driver keeps where NVML tells that apart."""
    return _bytes(gpu, "used", _V2, _V1)


def listed(gpu: Gpu) -> list[Process]:
    """Processes of any kind, each once: one that computes and draws is in two lists."""
    found: dict[int, Process] = {}
    for kind in PROCESS_KINDS:
        given = gpu.processes(kind)
        for process in () if isinstance(given, Gap) else given:
            found.setdefault(process.pid, process)
    return list(found.values())


def _holders(gpu: Gpu) -> str:
    names = [
        f"{one.who} {one.memory / GIB:.1f} GiB" if _said(one) and one.memory is not None else one.who
        for one in listed(gpu)
    ]
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def _said(process: Process) -> bool:
    return process.memory is not None and 0 <= process.memory < _NOT_SAID


def memory(gpu: Gpu, scene: Scene) -> Outcome | None:
    """Is all its memory there, and is as much free as the launch needs?"""
    if not scene.holds(_V1, _V2):
        return None
    infos = gpu.struct(_V2), gpu.struct(_V1)
    gap = next((info for info in reversed(infos) if isinstance(info, Gap)), None)
    need = scene.plan.needs_bytes
    apart = _apart(gpu, gap)
    if apart is not None:
        return skipped(apart) if need is None else unknown(f"{need / GIB:.1f} GiB are needed, and {apart}")
    error = first_error(*infos)
    if error is not None:
        return unread("memory size", error)
    total, free = _bytes(gpu, "total", _V2, _V1), _bytes(gpu, "free", _V2, _V1)
    if total is None or free is None:
        known = board_of(gpu.name) is not None
        return (
            unread("memory size", gap, must_exist=known) if gap else unknown("the answer has no memory size")
        )
    if need is not None and free < need:
        return _short(gpu, scene, free, need, total)
    more = [size for one in scene.siblings(gpu) if (size := _bytes(one, "total", _V2, _V1)) and size > total]
    if more:
        return warned(
            f"{total / GIB:.1f} GiB of memory, a sibling has {max(more) / GIB:.1f}",
            value=round(total / GIB, 1),
            limit=round(max(more) / GIB, 1),
            unit="GiB",
            cause="another variant of the board, or memory that was taken out of use",
            fix="compare gpu.vbios, gpu.row_remap and the part numbers of the two boards",
        )
    enough = "" if need is None else f", {need / GIB:.1f} needed"
    return passed(
        f"{free / GIB:.1f} of {total / GIB:.1f} GiB free{enough}",
        value=round(free / GIB, 1),
        limit=None if need is None else round(need / GIB, 1),
        unit="GiB",
    )


def _apart(gpu: Gpu, gap: Gap | None) -> str | None:
    """Why the memory of this GPU is no number of NVML's, None when it should be one."""
    if integrated(gpu.name) and gap is not None and gap.absent:
        return f"{gpu.name} uses its host's memory, which NVML does not measure: see MemAvailable in /proc/meminfo"
    if mig_on(gpu):
        return "MIG is on: memory belongs to its devices, each with its own size"
    return None


def _short(gpu: Gpu, scene: Scene, free: int, need: int, total: int) -> Outcome:
    holders = _holders(gpu)
    shown = bool(holders) or scene.holds(*_KEYS)
    fix = f"stop what holds it: {holders}" if holders else _unseen(scene)
    if not shown:
        fix = "see who holds it: nvidia-smi on that machine lists the processes, as root all of them"
    if need > total:
        fix = "the board is too small: plan more GPUs, a smaller model or a smaller share of memory"
    return failed(
        f"{free / GIB:.1f} GiB free of {need / GIB:.1f} that the launch needs"
        + (f"; held by {holders}" if holders else ""),
        value=round(free / GIB, 1),
        limit=round(need / GIB, 1),
        unit="GiB",
        cause=None if holders or not shown else "no process is to be seen that holds it",
        fix=fix,
    )


def _unseen(scene: Scene) -> str:
    if scene.node.container:
        return "a process of the host or of another container holds it: look with nvidia-smi on the host"
    return (
        "look with root's eyes (nvidia-smi, fuser -v /dev/nvidia*) for a process that is ending; "
        "if there is none, reset the GPU"
    )


def processes(gpu: Gpu, scene: Scene) -> Outcome | None:
    """Who works on the GPU? Processes are no fault; memory that nobody can be seen to hold is worth a look."""
    if not scene.holds(*_KEYS):
        return None
    lists = [gpu.processes(kind) for kind in PROCESS_KINDS]
    error = first_error(*lists)
    if error is not None and of_slices(gpu, error):
        return skipped("MIG is on: processes belong to its devices, and all of them are told to root only")
    if error is not None:
        return unread("running processes", error)
    holders, count = _holders(gpu), len(listed(gpu))
    if count:
        elsewhere = any(process.elsewhere for process in listed(gpu))
        note = " (pids are the host's: some are in another pid namespace)" if elsewhere else ""
        return passed(f"{count} processes: {holders}{note}", value=count)
    if all(isinstance(one, Gap) for one in lists):
        return unread("running processes", next(one for one in lists if isinstance(one, Gap)))
    held = used(gpu)
    if held is not None and held > DRIVERS_OWN and not mig_on(gpu):
        where = (
            "another pid namespace"
            if scene.node.container
            else "a process that is ending, or another pid namespace"
        )
        return warned(
            f"{held / GIB:.1f} GiB are held and no process is to be seen",
            value=round(held / GIB, 1),
            limit=round(DRIVERS_OWN / GIB, 1),
            unit="GiB",
            cause=f"their owner is in {where}",
            fix=_unseen(scene),
        )
    return passed("no process", value=0)
