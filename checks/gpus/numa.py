"""Rule about where a GPU sits in its host: the CPUs that are near it, and whether this process may use them."""

from __future__ import annotations

from checks.gpus.dump import Gap, Gpu
from checks.gpus.rule import Outcome, Scene, first_error, not_absent, passed, skipped, unread, warned
from checks.gpus.which import address

_CPUS, _NODE = "nvmlDeviceGetCpuAffinity", "nvmlDeviceGetNumaNodeId"
WORD = 64
"""Bits of one word of nvmlDeviceGetCpuAffinity's mask (unsigned long)."""


def near(gpu: Gpu) -> frozenset[int] | Gap:
    """The CPUs near the GPU, by their numbers. A record keeps as many words as were asked for."""
    words = gpu.numbers(_CPUS)
    if isinstance(words, Gap):
        return words
    return frozenset(
        word * WORD + bit for word, mask in enumerate(words) for bit in range(WORD) if mask >> bit & 1
    )


def numa(gpu: Gpu, scene: Scene) -> Outcome | None:
    """Is it known which CPUs are near the GPU, and may this process run on one of them?"""
    where = address(gpu)
    by_bus = None if isinstance(where, Gap) else scene.node.bus.cpus.get(where)
    if not scene.holds(_CPUS, _NODE) and not by_bus:
        return None
    said, node = near(gpu), gpu.number(_NODE)
    error = first_error(said, node)
    if error is not None:
        return unread("CPU affinity", error)
    cpus = by_bus or (frozenset() if isinstance(said, Gap) else said)
    at = "" if isinstance(node, Gap) else f"NUMA node {node}, "
    if not cpus:
        gap = not_absent(said, node)
        if gap is not None:
            return unread("CPU affinity", gap)
        if isinstance(node, Gap):
            return skipped("neither driver nor bus say which CPUs are near it")
        return passed(f"NUMA node {node}", value=node)
    mine = scene.node.seat.cpus
    if mine and not mine & cpus:
        return warned(
            f"{at}CPUs {ranges(cpus)} are near it, this process may use {ranges(mine)} only",
            value=ranges(mine),
            limit=ranges(cpus),
            cause="a cpuset of the container, of systemd (CPUAffinity) or of taskset: each copy crosses the sockets",
            fix=f"give the service CPUs near its GPUs (CPUAffinity={ranges(cpus)}), or give it the near GPUs",
        )
    return passed(f"{at}CPUs {ranges(cpus)} are near it", value=len(cpus), unit="CPUs")


def ranges(cpus: frozenset[int]) -> str:
    """``0-31,64-95``"""
    parts: list[list[int]] = []
    for cpu in sorted(cpus):
        if parts and parts[-1][1] == cpu - 1:
            parts[-1][1] = cpu
        else:
            parts.append([cpu, cpu])
    return ",".join(f"{first}-{last}" if last > first else str(first) for first, last in parts)
