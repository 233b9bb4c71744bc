"""What the kernels compute, computed on the host: the reference that no GPU had a hand in. Pure Python."""

from __future__ import annotations

import math
import struct

_WORD = 0xFFFFFFFF


def mix(index: int, seed: int) -> int:
    """The 32-bit word that kpro_fill_u32 puts at ``index``."""
    x = (index & _WORD) ^ ((index >> 32) * 0x9E3779B1 & _WORD) ^ seed
    x ^= x >> 16
    x = x * 0x85EBCA6B & _WORD
    x ^= x >> 13
    x = x * 0xC2B2AE35 & _WORD
    x ^= x >> 16
    return (x + seed) & _WORD


def fma32(a: float, b: float, c: float) -> float:
    """a x b + c of single-precision numbers, rounded once to single precision.

    The product is exact in double precision. The sum is rounded to odd there, so that rounding it again to
    24 bits gives what one rounding would have given (Boldo and Melquiond, 2008).
    """
    product = a * b
    total = product + c
    part = total - product
    error = (product - (total - part)) + (c - part)
    if error and not struct.unpack("<Q", struct.pack("<d", total))[0] & 1:
        total = math.nextafter(total, math.inf if error > 0 else -math.inf)
    return float(struct.unpack("<f", struct.pack("<f", total))[0])


def chain(lane: int, seed: int, steps: int) -> int:
    """The word that a thread of kpro_compute has after ``steps`` steps from its start."""
    x = mix(lane, seed)
    f = (x >> 9) * 2.0**-23
    for _ in range(steps):
        f = fma32(f, f, -1.8125)
        bits = struct.unpack("<I", struct.pack("<f", f))[0]
        x = (x * 1664525 + bits) & _WORD
        x ^= x >> 15
    return x


def product(seed: int, steps: int) -> list[int]:
    """What kpro_tensor's lanes must hold, four numbers each: steps x (A1 + A2) x B of small whole numbers."""
    left = [
        [_small(16 * row + k, seed) + _small(16 * row + k, ~seed & _WORD) for k in range(16)]
        for row in range(16)
    ]
    right = [[_small(8 * k + column, seed ^ 0x5A5A5A5A) for column in range(8)] for k in range(16)]
    whole = [
        [steps * sum(left[row][k] * right[k][column] for k in range(16)) for column in range(8)]
        for row in range(16)
    ]
    # Which lane holds what: PTX ISA, fragments of mma.m16n8k16, accumulator.
    return [
        whole[lane // 4 + 8 * (place // 2)][lane % 4 * 2 + place % 2]
        for lane in range(32)
        for place in range(4)
    ]


def _small(index: int, seed: int) -> int:
    return (mix(index, seed) & 7) - 4
