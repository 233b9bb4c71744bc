"""Is there room for a candidate beside what runs now? From files (fit) and from what is free. Pure.

``fit_facts`` are the ``facts`` of ``provcheck fit --json``, ``gpu_facts`` those of ``provcheck gpus --json`` in the
same guest; what either does not say means no room: the candidate is then tried in the place of the service.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from provision.data.room import GIB, margin

MOST_GIB = 1 << 20


@dataclass(frozen=True)
class Room:
    """``beside``: it fits beside what runs. ``why``: the figures, as a sentence. ``gpus``: those that it takes, as
    NVML numbers them; none where it needs none."""

    beside: bool
    why: str
    gpus: tuple[int, ...] = ()


@dataclass(frozen=True)
class Ram:
    """Bytes of a guest: what can be had now, and the whole that it may ever have."""

    available: int
    whole: int


def room(
    fit_facts: Mapping[str, Any],
    gpu_facts: Mapping[str, Any],
    ram: Ram | None = None,
    visible: Sequence[int] | None = None,
) -> Room:
    """Decides. ``ram``: of a guest without GPUs. ``visible``: which GPUs the candidate sees, in its order (its
    CUDA_VISIBLE_DEVICES); all of the guest's unless given, of which an engine takes the first ones."""
    takes, ranks = fit_facts.get("takes_gib"), fit_facts.get("ranks")
    if (
        not isinstance(takes, (int, float))
        or not 0 <= takes < MOST_GIB
        or not isinstance(ranks, int)
        or ranks < 1
    ):
        return Room(False, "what the candidate takes is not known: provcheck fit gives no figure")
    seen = gpu_facts.get("gpus")
    if not isinstance(seen, list):
        return Room(False, "the GPUs of the guest could not be looked at")
    need = int(takes * GIB)
    return _in_memory(need, ram) if fit_facts.get("memory") == "ram" else _on_gpus(need, ranks, seen, visible)


def _in_memory(need: int, ram: Ram | None) -> Room:
    if ram is None:
        return Room(False, "how much memory is free in the guest could not be read")
    rest = margin("ram", ram.whole)
    text = f"{_gib(need)} GiB and {_gib(rest)} GiB of reserve, {_gib(ram.available)} GiB of memory are free"
    return Room(need + rest <= ram.available, f"it takes {text}")


def _on_gpus(need: int, ranks: int, seen: list[Any], visible: Sequence[int] | None) -> Room:
    by_index = {one.get("index"): one for one in seen if isinstance(one, Mapping)}
    order = list(visible) if visible is not None else sorted(i for i in by_index if isinstance(i, int))
    if len(order) < ranks:
        return Room(False, f"it takes {ranks} GPUs, and sees {len(order)}")
    taken = tuple(order[:ranks])
    short = []
    for index in taken:
        memory = by_index.get(index, {}).get("memory")
        free, total = (
            (memory.get("free"), memory.get("total")) if isinstance(memory, Mapping) else (None, None)
        )
        if not isinstance(free, int) or not isinstance(total, int):
            short.append(f"gpu{index}: how much is free could not be read")
        elif need + margin("gpu", total) > free:
            short.append(f"gpu{index} has {_gib(free)} GiB free")
    text = f"it takes {_gib(need)} GiB and {_gib(margin('gpu', 0))} GiB of reserve on each of {ranks} GPU(s)"
    return Room(not short, f"{text}: {'; '.join(short) or 'they are free'}", taken)


def ram_of(
    meminfo: str | None, limit: str | None = None, used: str | None = None, stat: str | None = None
) -> Ram | None:
    """Memory of a guest from /proc/meminfo and its cgroup's memory.max, memory.current and memory.stat (None: not
    there, as at the root of a machine). Page cache that the kernel gives back first is free. None when it cannot be
    told."""
    found = {
        name: int(kib) << 10
        for name, kib in re.findall(r"^(MemTotal|MemAvailable):\s*(\d+) kB$", meminfo or "", re.MULTILINE)
    }
    if found.keys() != {"MemTotal", "MemAvailable"}:
        return None
    whole, available = found["MemTotal"], found["MemAvailable"]
    if limit is not None and limit.strip() != "max":
        if not limit.strip().isdecimal() or used is None or not used.strip().isdecimal():
            return None
        cached = re.search(r"^inactive_file (\d+)$", stat or "", re.MULTILINE)
        whole = min(whole, int(limit))
        available = min(available, int(limit) - int(used) + (int(cached[1]) if cached else 0))
    return Ram(max(available, 0), whole)


def _gib(size: int) -> str:
    return f"{size / GIB:.1f}"
