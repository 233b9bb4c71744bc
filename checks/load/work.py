"""What one GPU is made to do, in a child of its own (``_probe load work``). Measures; judges nothing.

Every step allocates nothing that outlives the child, and waits for the GPU with a deadline. Rates are GB/s
(10**9 bytes), times seconds.
"""

from __future__ import annotations

import ctypes
import os
import random
import time
from collections.abc import Callable
from typing import Any

from checks.cuda import driver
from checks.cuda.context import Context, Module
from checks.cuda.driver import Device
from checks.cuda.kernels import kernels
from checks.cuda.reference import mix
from checks.load import compute
from checks.load.look import Sampler
from checks.load.options import Options

U64, U32 = ctypes.c_uint64, ctypes.c_uint32
BLOCK, BLOCKS_PER_SM = 256, 8
PIECE_LIMIT = 1 << 30
_RANDOM_BYTES = 32 << 20
_ALL_ONES = 0xFFFFFFFF
_BATCH_S = 0.04


class Work:
    """The steps, in order: start, link, memory, heat, stop. Each gives its measurements as plain values.

    ``doing`` is told each part before it starts: a part that hangs is named by it.
    """

    def __init__(self, options: Options, uuid: str, doing: Callable[[str], None]) -> None:
        self.options, self.uuid, self.doing = options, uuid, doing
        self.random = random.SystemRandom()
        self.context: Context
        self.device: Device
        self.module: Module
        self.sampler: Sampler

    # start

    def start(self) -> dict[str, Any]:
        """Makes the context and takes the memory."""
        began = time.monotonic()
        self.doing("starting the driver")
        cuda = driver.load()
        cuda.init()
        self.doing("making the context")
        self.device = cuda.device(0)
        self.context = gpu = cuda.context(0)
        self.module = gpu.module(kernels("kernels.ptx"))
        self.stream = gpu.stream()
        self.before, self.after = gpu.event(), gpu.event()
        self.doing("taking memory")
        self.out = gpu.alloc(16)
        free, total = gpu.mem_info()
        # A share of what is free, so that a small card and a --force beside others both work.
        self.size = self.options.arena(free)
        self.arena = gpu.alloc(self.size)
        self.doing("starting NVML")
        self.sampler = Sampler(self.uuid)
        return {
            "cuda": cuda.version,
            "name": self.device.name,
            "uuid": self.device.uuid,
            "bdf": self.device.bdf,
            "capability": list(self.device.capability),
            "attributes": self.device.attributes,
            "memory": total,
            "free": free,
            "arena": self.size,
            "took_s": time.monotonic() - began,
        }

    # link

    def link(self) -> dict[str, Any]:
        """Copies between pinned host memory and the GPU, both ways, alone; then whether all arrived."""
        size = min(self.options.size, self.size // 2)
        gpu, host = self.context, self.context.pinned(size)
        seed = self.random.getrandbits(32)
        self._fill("kpro_fill_u32", self.arena, size, seed)
        self.sampler.take()
        found: dict[str, Any] = {"size": size}
        found["d2h"] = self._rate(
            size, lambda: gpu.d2h(host, self.arena, size, self.stream), "copying to the host"
        )
        back = self.arena + size
        found["h2d"] = self._rate(size, lambda: gpu.h2d(back, host, size, self.stream), "copying to the GPU")
        found["at_work"] = self.sampler.take()
        found["round"] = self._round(host, back, size, seed)
        self.doing("copying fresh data there and back")
        sent = os.urandom(min(size, _RANDOM_BYTES))
        gpu.h2d(self.arena, sent, len(sent), self.stream)
        gpu.d2d(back, self.arena, len(sent), self.stream)
        gpu.d2h(host, back, len(sent), self.stream)
        self.wait("copying fresh data there and back")
        found["echo"] = {"bytes": len(sent), "first_bad": _first_difference(sent, host.view)}
        gpu.free_pinned(host)
        return found

    def _round(self, host: Any, back: int, size: int, seed: int) -> dict[str, Any]:
        """GPU to host to GPU: the GPU checks what came back, the host tells which way went wrong."""
        self.context.memset32(back, 0, size // 4, self.stream)
        self.context.h2d(back, host, size, self.stream)
        found = {"bytes": size, **self._check("kpro_check_u32", back, size, seed)}
        words = host.view.cast("I")
        if found["mismatches"]:
            found["host_had_it"] = words[found["first_bad"]] == mix(found["first_bad"], seed)
            # Both places filled and checked by the GPU alone: does its memory hold the words at all?
            self._fill("kpro_fill_u32", self.arena, 2 * size, seed)
            found["at_home"] = self._check("kpro_check_u32", self.arena, 2 * size, seed)["mismatches"]
        places = [self.random.randrange(size // 4) for _ in range(2048)]
        found["sampled"] = len(places)
        found["sampled_bad"] = sum(words[i] != mix(i, seed) for i in places)
        words.release()
        return found

    def _rate(self, size: int, copy: Callable[[], None], what: str) -> dict[str, Any]:
        """Batches of copies between two events; the first one only shows how many make a batch."""
        rates: list[float] = []
        batch, begun = 1, time.monotonic()
        self.doing(what)
        while True:
            started = time.monotonic()
            self.context.record(self.before, self.stream)
            for _ in range(batch):
                copy()
            self.context.record(self.after, self.stream)
            self.context.wait_event(self.after, self.options.wait_s, what=what, meanwhile=self.sampler)
            rates.append(batch * size / max(self.context.elapsed(self.before, self.after), 1e-9) / 1e9)
            now = time.monotonic()
            if len(rates) > 3 and now - begun > self.options.link_s:
                return _rates(rates[1:])
            batch = max(1, min(64, int(batch * _BATCH_S / max(now - started, 1e-6))))

    # memory

    def memory(self) -> dict[str, Any]:
        """Bandwidth of the GPU's own memory, and whether it holds what is written."""
        piece = min(self.size // 3, PIECE_LIMIT) // 4096 * 4096
        first, second, third = (self.arena + number * piece for number in range(3))
        vectors = U64(piece // 16)
        pointers = [U64(p) for p in (first, second, third)]
        self._fill("kpro_fill_u32", self.arena, self.size, self.random.getrandbits(32))
        copy, triad = self.module.function("kpro_copy"), self.module.function("kpro_triad")
        grid = self.device.multiprocessors * BLOCKS_PER_SM
        found: dict[str, Any] = {"piece": piece}
        found["copy"] = self._rate(
            2 * piece,
            lambda: self.context.launch(copy, grid, BLOCK, (*pointers[:2], vectors), self.stream),
            "copying memory",
        )
        scalar = ctypes.c_float(0.5)
        found["triad"] = self._rate(
            3 * piece,
            lambda: self.context.launch(triad, grid, BLOCK, (*pointers, vectors, scalar), self.stream),
            "adding memory",
        )
        found["patterns"] = []
        for name, flip in (("address", 0), ("address inverted", _ALL_ONES)):
            self._fill("kpro_fill_index", self.arena, self.size, flip)
            checked = self._check("kpro_check_index", self.arena, self.size, flip)
            found["patterns"].append({"pattern": name, "bytes": self.size, **checked})
        return found

    def heat(self) -> dict[str, Any]:
        """Computes on all multiprocessors for ``seconds``; memory must hold its words meanwhile."""
        seed = self.random.getrandbits(32)
        self._fill("kpro_fill_u32", self.arena, self.size, seed)
        self.sampler.take()
        found = compute.heat(self)
        found["at_work"] = self.sampler.take()
        kept = self._check("kpro_check_u32", self.arena, self.size, seed)
        found["kept"] = {"pattern": "random, kept while computing", "bytes": self.size, **kept}
        return found

    def stop(self) -> dict[str, Any]:
        """Gives everything back."""
        self.context.free(self.arena)
        self.context.free(self.out)
        self.module.unload()
        self.context.close()
        return {}

    # common

    def wait(self, what: str) -> None:
        self.context.synchronize(self.options.wait_s, self.stream, what=what, meanwhile=self.sampler)

    def _fill(self, kernel: str, pointer: int, size: int, seed: int) -> None:
        self.doing("filling memory")
        self._words(kernel, pointer, size, seed)
        self.wait("filling memory")

    def _check(self, kernel: str, pointer: int, size: int, seed: int) -> dict[str, Any]:
        """Every word against what must be there: how many differ, and the index of the first."""
        self.doing("checking memory")
        self.context.memset32(self.out, 0, 2, self.stream)
        self.context.memset32(self.out + 8, _ALL_ONES, 2, self.stream)
        self._words(kernel, pointer, size, seed, U64(self.out))
        self.wait("checking memory")
        said = self.context.read(self.out, 16, self.options.wait_s)
        mismatches, first = (int.from_bytes(said[at : at + 8], "little") for at in (0, 8))
        return {"mismatches": mismatches, "first_bad": first if mismatches else None}

    def _words(self, kernel: str, pointer: int, size: int, seed: int, *more: Any) -> None:
        grid = self.device.multiprocessors * BLOCKS_PER_SM
        args = (U64(pointer), U64(size // 4), U32(seed), *more)
        self.context.launch(self.module.function(kernel), grid, BLOCK, args, self.stream)


def _rates(rates: list[float]) -> dict[str, Any]:
    ordered = sorted(rates)
    return {
        "best": ordered[-1],
        "median": ordered[len(ordered) // 2],
        "low": ordered[0],
        "batches": len(ordered),
    }


def _first_difference(sent: bytes, got: memoryview) -> int | None:
    """The first byte that differs, None when none does."""
    if bytes(got[: len(sent)]) == sent:
        return None
    return next(at for at, byte in enumerate(sent) if got[at] != byte)
