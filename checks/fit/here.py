"""The memory of the machine that this runs on: of its GPUs (``--gpus here``), or its own (``--gpus ram``)."""

from __future__ import annotations

import re
from pathlib import Path

from checks.data.boards import integrated
from checks.errors import BadInput
from checks.fit.gpus import Gpus, of_record, parse_gpus
from checks.gpus import collect
from checks.record import Record

SEES_S = 30.0
"""Seconds that NVML may take."""


def gpus(text: str) -> Gpus:
    """What ``--gpus`` names. Raises BadInput."""
    if text == "ram":
        return memory()
    if text == "here":
        return of_machine(collect.collect(SEES_S))
    return parse_gpus(text)


def of_machine(seen: Record, root: str = "") -> Gpus:
    """The GPUs that were seen. One that is part of its host's chip has that machine's memory: NVML measures none of it.
    Raises BadInput."""
    devices = (seen.nvml or {}).get("devices")
    names = [one.get("nvmlDeviceGetName") for one in devices if isinstance(one, dict)] if devices else []
    if names and all(isinstance(name, str) and integrated(name.removeprefix("b:")) for name in names):
        shared = memory(root)
        return Gpus(shared.usable * len(names), f"{shared.source}, which the GPU shares")
    return of_record(seen, "this machine")


def memory(root: str = "") -> Gpus:
    """The memory that a process here may ever have: the machine's, or its cgroup's limit. Raises BadInput."""
    try:
        text = Path(f"{root}/proc/meminfo").read_text("ascii", "replace")
    except OSError as error:
        raise BadInput(f"--gpus ram: /proc/meminfo cannot be read ({error.strerror})") from None
    found = re.search(r"^MemTotal:\s*(\d+) kB$", text, re.MULTILINE)
    if found is None:
        raise BadInput("--gpus ram: /proc/meminfo has no MemTotal")
    whole, source = int(found[1]) << 10, "MemTotal of this machine"
    try:
        limit = Path(f"{root}/sys/fs/cgroup/memory.max").read_text("ascii", "replace").strip()
    except OSError:
        limit = "max"  # the root of a machine's tree has no limit, and no such file
    if limit.isdecimal() and int(limit) < whole:
        whole, source = int(limit), "memory.max of this container"
    return Gpus((whole,), source, ram=True)
