"""Rule about where a GPU sits in its host: the CPUs that are near it, and whether this process may use them."""

from __future__ import annotations

from checks.gpus.dump import Gap, Gpu
from checks.gpus.rule import Outcome, Scene, first_error, not_absent, passed, skipped, unread, warned

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
    """Is it known which CPUs are near the GPU?"""
    if not scene.holds(_CPUS, _NODE):
        return None
    cpus, node = near(gpu), gpu.number(_NODE)
    error = first_error(cpus, node)
    if error is not None:
        return unread("CPU affinity", error)
    where = "" if isinstance(node, Gap) else f"NUMA node {node}, "
    if isinstance(cpus, Gap):
        if isinstance(node, Gap):
            gap = not_absent(cpus, node)
            if gap is not None:
                return unread("CPU affinity", gap)
            return skipped("this driver does not say which CPUs are near it")
        return passed(f"NUMA node {node}", value=node)
    if not cpus:
        return warned(
            f"{where}no CPU is near it",
            cause="the firmware or the hypervisor gives the slot no NUMA node, or that node has no CPU",
            fix="give a virtual machine the GPU's node (hostpci with numa), or set NUMA in the firmware set-up",
        )
    return passed(f"{where}CPUs {ranges(cpus)} are near it", value=len(cpus), unit="CPUs")


def ranges(cpus: frozenset[int]) -> str:
    """``0-31,64-95``"""
    parts: list[list[int]] = []
    for cpu in sorted(cpus):
        if parts and parts[-1][1] == cpu - 1:
            parts[-1][1] = cpu
        else:
            parts.append([cpu, cpu])
    return ",".join(f"{first}-{last}" if last > first else str(first) for first, last in parts)
