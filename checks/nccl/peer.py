"""Copies between two GPUs (``_probe nccl-peer``), each verified where it arrived.

The pattern is made on the source, copied, checked by a kernel on the destination and read back from there to
the host. It never travels back the way it came: a copy and its return can both be wrong and cancel out.
"""

from __future__ import annotations

import struct
from typing import Any

from checks.cuda import driver
from checks.cuda.context import Context
from checks.cuda.errors import CudaError, CudaMissing, CudaTimeout
from checks.nccl.device import Kernels, mixed
from checks.nccl.talk import begin, say

_FOREVER = 86400.0
_PIECE = 1 << 20


def main() -> int:
    """Does the directions that the parent asks for; 0 whatever they gave, 1 when a GPU could not be used."""
    asked = begin()
    try:
        say(phase="context")
        cuda = driver.load()
        cuda.init()
        gpus = {
            ordinal: cuda.context(ordinal) for ordinal in sorted({g for way in asked["ways"] for g in way})
        }
        kernels = {ordinal: Kernels(gpu) for ordinal, gpu in gpus.items()}
        for src, dst in asked["ways"]:
            _way(asked, kernels[src], kernels[dst], src, dst)
    except (CudaError, CudaMissing, CudaTimeout) as error:
        say(error=str(error), code=getattr(error, "code", None))
        return 1
    say(end=True)
    return 0


def _way(asked: dict[str, Any], source: Kernels, target: Kernels, src: int, dst: int) -> None:
    say(phase=f"{src}-{dst}", direct=(direct := target.gpu.can_access(source.gpu)))
    if direct:
        target.gpu.enable_peer(source.gpu)
        source.gpu.enable_peer(target.gpu)
    for size in asked["sizes"]:
        seed = asked["seed"] = asked["seed"] * 1664525 + 1013904223 & 0xFFFFFFFF
        say(copy=[src, dst], bytes=size, **_copy(source, target, size, seed))


def _copy(source: Kernels, target: Kernels, size: int, seed: int) -> dict[str, Any]:
    count = size // 4
    here, there = source.gpu.alloc(size), target.gpu.alloc(size)
    say(at="source")  # a GPU that hangs in its own work is no broken way between two
    source.fill_words(here, count, seed)
    source.gpu.synchronize(_FOREVER)
    say(at="target")
    target.gpu.memset32(there, 0xDEADBEEF, count)
    target.gpu.synchronize(_FOREVER)
    say(at="copy")
    start, end = source.gpu.event(), source.gpu.event()
    source.gpu.record(start)
    source.gpu.peer_copy(there, target.gpu, here, source.gpu, size)
    source.gpu.record(end)
    source.gpu.synchronize(_FOREVER)
    took = source.gpu.elapsed(start, end)
    say(at="check")
    wrong, first = target.wrong_words(there, count, seed)
    read_wrong = _read_back(source.gpu, here, target.gpu, there, size, seed)
    source.gpu.free(here)
    target.gpu.free(there)
    return {"wrong": wrong, "first": first, "read_wrong": read_wrong, "seconds": took}


def _read_back(source: Context, here: int, target: Context, there: int, size: int, seed: int) -> int:
    """Bytes that the host reads otherwise from the destination than from the source, or than it computes."""
    piece = min(_PIECE, size)
    one, other = source.pinned(piece), target.pinned(piece)
    wrong = 0
    for offset in range(0, size, piece):
        length = min(piece, size - offset)
        source.d2h(one, here + offset, length)
        target.d2h(other, there + offset, length)
        source.synchronize(_FOREVER)
        target.synchronize(_FOREVER)
        if one.view[:length] != other.view[:length]:
            pairs = zip(one.view[:length], other.view[:length])  # noqa: B905 - of one length
            wrong += sum(a != b for a, b in pairs)
        (word,) = struct.unpack_from("<I", other.view, 0)
        wrong += 4 * (word != mixed(offset // 4, seed))
    source.free_pinned(one)
    target.free_pinned(other)
    return wrong
