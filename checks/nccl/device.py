"""What peer copies and collectives both need of a GPU: the kernels, and an answer of one that checks."""

from __future__ import annotations

import ctypes
import struct
from importlib.resources import files
from typing import Any

from checks.cuda.context import Context

BLOCK = 256
GRID = 1024
READ_S = 20.0
_NONE = (1 << 64) - 1


class Kernels:
    """The kernels of checks/cuda on one GPU. Sizes are elements of four bytes."""

    def __init__(self, gpu: Context) -> None:
        self.gpu = gpu
        self._module = gpu.module(files("checks.cuda").joinpath("kernels.ptx").read_text())
        self._out = gpu.alloc(16)

    def run(self, name: str, *args: Any, count: int, stream: Any = None) -> None:
        """Launches a kernel over ``count`` elements."""
        grid = max(1, min(GRID, -(-count // BLOCK)))
        self.gpu.launch(self._module.function(name), grid, BLOCK, args, stream)

    def fill_words(self, target: int, count: int, seed: int) -> None:
        self.run("kpro_fill_u32", *_plain(target, count), ctypes.c_uint32(seed), count=count)

    def fill_numbers(self, target: int, count: int, seed: int, rank: int, stream: Any) -> None:
        tail = (ctypes.c_uint32(seed), ctypes.c_uint32(rank))
        self.run("kpro_fill_f32", *_plain(target, count), *tail, count=count, stream=stream)

    def wrong_words(self, source: int, count: int, seed: int) -> tuple[int, int | None]:
        """How many words are not those of ``fill_words``, and the first of them."""
        return self._check("kpro_check_u32", source, count, ctypes.c_uint32(seed))

    def wrong_sums(self, source: int, count: int, seed: int, nranks: int) -> tuple[int, int | None]:
        """How many numbers are not the sum over all ranks' ``fill_numbers``, and the first of them."""
        return self._check(
            "kpro_check_sum_f32", source, count, ctypes.c_uint32(seed), ctypes.c_uint32(nranks)
        )

    def _check(self, name: str, source: int, count: int, *more: Any) -> tuple[int, int | None]:
        start = struct.pack("<QQ", 0, _NONE)
        self.gpu.h2d(self._out, start)
        self.run(name, *_plain(source, count), *more, ctypes.c_uint64(self._out), count=count)
        wrong, first = struct.unpack("<QQ", self.gpu.read(self._out, 16, READ_S))
        return wrong, None if first == _NONE else first


def _plain(pointer: int, count: int) -> tuple[Any, Any]:
    return ctypes.c_uint64(pointer), ctypes.c_uint64(count)


def mixed(index: int, seed: int) -> int:
    """What ``fill_words`` writes at an index, computed here: murmur3's finaliser over index and seed."""
    mask = 0xFFFFFFFF
    word = (index & mask) ^ ((index >> 32) * 0x9E3779B1 & mask) ^ seed
    word = (word ^ word >> 16) * 0x85EBCA6B & mask
    word = (word ^ word >> 13) * 0xC2B2AE35 & mask
    return (word ^ word >> 16) + seed & mask
