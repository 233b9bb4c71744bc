"""Whether somebody uses a GPU, from what NVML says of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

IDLE_USED = 256 << 20
"""Bytes that may be in use on an idle GPU beyond what the driver reserves (memory v2 tells them apart): a
display, persistence. An H200 at rest uses 0; measured."""

IDLE_USED_V1 = 1536 << 20
"""The same where NVML counts the driver's own as used: an H200 reserves 615 MiB, measured."""

RESERVE = 1 << 30
"""Bytes that a test beside others leaves free whatever it wants: its own context and NCCL's buffers take some
hundred MiB as well, and a service whose next allocation fails is down."""

LEAST_FREE = 2 * RESERVE
"""Free memory under which a GPU in use is not touched at all."""

_LISTS = {
    "nvmlDeviceGetComputeRunningProcesses": "compute",
    "nvmlDeviceGetGraphicsRunningProcesses": "graphics",
    "nvmlDeviceGetMPSComputeRunningProcesses": "MPS",
}


def holders(device: Mapping[str, Any]) -> list[str]:
    """Who or what holds the GPU, in words; empty when nobody does, or nobody can be seen."""
    found: dict[int, str] = {}
    for key, kind in _LISTS.items():
        listed = device.get(key)
        for process in listed if isinstance(listed, list) else ():
            if isinstance(process, dict) and isinstance(process.get("pid"), int):
                used = process.get("usedGpuMemory")
                held = f", {used >> 20} MiB" if isinstance(used, int) and 0 < used < 1 << 50 else ""
                found.setdefault(process["pid"], f"process {process['pid']}{_name(process)} ({kind}{held})")
    held_by_nobody = used_bytes(device)
    if not found and held_by_nobody is not None and held_by_nobody > _allowance(device):
        return [f"{held_by_nobody >> 20} MiB held by a process that cannot be seen from here"]
    return list(found.values())


def _name(process: Mapping[str, Any]) -> str:
    name = process.get("name")
    if isinstance(name, str) and name:
        return f" {name[:32]}"
    return " of another PID namespace" if process.get("namespace") == "other" else ""


def seen(device: Mapping[str, Any]) -> bool:
    """Whether NVML said anything that can tell a busy GPU from an idle one."""
    return used_bytes(device) is not None or isinstance(
        device.get("nvmlDeviceGetComputeRunningProcesses"), list
    )


def used_bytes(device: Mapping[str, Any]) -> int | None:
    """Memory in use, without the driver's own where NVML can tell."""
    for key in ("memv2", "nvmlDeviceGetMemoryInfo"):
        memory = device.get(key)
        if isinstance(memory, dict) and isinstance(memory.get("used"), int):
            return int(memory["used"])
    return None


def free_bytes(device: Mapping[str, Any]) -> int | None:
    """Memory that nobody has, None when NVML did not tell."""
    for key in ("memv2", "nvmlDeviceGetMemoryInfo"):
        memory = device.get(key)
        if isinstance(memory, dict) and isinstance(memory.get("free"), int):
            return int(memory["free"])
    return None


def too_little(device: Mapping[str, Any]) -> str | None:
    """Why a GPU in use is left alone even when forced, None when there is room beside its user."""
    free = free_bytes(device)
    if not holders(device) or free is None or free >= LEAST_FREE:
        return None
    return (
        f"only {free >> 20} MiB free beside its user, who may need them; {LEAST_FREE >> 20} MiB are the least"
    )


def _allowance(device: Mapping[str, Any]) -> int:
    memory = device.get("memv2")
    return IDLE_USED if isinstance(memory, dict) and isinstance(memory.get("used"), int) else IDLE_USED_V1
