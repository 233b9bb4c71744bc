"""How much more than an engine says it takes must be free before it is started beside another one."""

from __future__ import annotations

from dataclasses import dataclass

GIB = 1 << 30


@dataclass(frozen=True)
class Margin:
    """``bytes`` that must stay free, or ``share`` of the whole where that is more."""

    of: str
    bytes: int
    share: float
    why: str
    source: str


MARGINS = (
    Margin(
        "gpu",
        2 * GIB,
        0.0,
        "CUDA graphs are captured outside the engine's share, and a service whose next allocation fails is down",
        "0.5 to 1 GiB of graphs: LMCache/LMCache#3430, vllm-project/vllm#39559; 1 GiB for who runs there: the reserve "
        "of provcheck load --force",
    ),
    Margin(
        "ram",
        GIB,
        0.05,
        "page tables, page cache of the weights and the requests of the service that runs need room; without it the "
        "kernel kills one of both, and it may be the one that serves",
        "proc(5): MemAvailable is an estimate of what can be had without swapping; kernel, cgroup-v2: memory.max",
    ),
)


def margin(of: str, whole: int) -> int:
    """Bytes to leave free of ``whole``. Raises KeyError for what has no row."""
    for row in MARGINS:
        if row.of == of:
            return max(row.bytes, int(whole * row.share))
    raise KeyError(of)
