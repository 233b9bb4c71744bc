"""The shape of a per-position acceptance curve names the family of the fault. Pure, and of ratios only.

Only ratios decide, so a run twice as long has the same shape. Sources: the measured table of single faults (vLLM
0.20.1 on an H200, a trained DFlash pair) and the public threads named at the rows of
:mod:`checks.data.causes`. ``c[i] = p[i] / p[i-1]`` is the conditional acceptance, ``c[0] = p[0]``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

DEAD_BELOW = 0.15
"""Acceptance of the first drafted token below which a drafter is garbage, whatever the rest of the curve does."""

SEEN = 0.04
"""A position is followed only while this share of drafts still reaches it; beyond, noise decides."""


class Shape(str, Enum):
    """``dead``: position 0 is gone. ``cliff``: each position is worse than the one before, from the start (rope).
    ``cut``: healthy, then suddenly nothing (block too short, window). ``weak``: even, but low (layers, prompts,
    an old drafter). ``healthy``: even and high."""

    DEAD = "dead"
    CLIFF = "cliff"
    CUT = "cut"
    WEAK = "weak"
    HEALTHY = "healthy"


@dataclass(frozen=True)
class Curve:
    """``cut_at``: first position (from 0) that the drafter no longer reaches; only for ``cut``."""

    shape: Shape
    conditionals: tuple[float, ...]
    cut_at: int | None = None


def conditionals(positions: tuple[float, ...]) -> tuple[float, ...]:
    """c[i] as far as the curve can be followed. ``positions`` are shares of drafts, 0..1."""
    found: list[float] = []
    before = 1.0
    for share in positions:
        if before < SEEN:
            break
        found.append(share / before)
        before = share
    return tuple(found)


def shape_of(positions: tuple[float, ...], length: float) -> Curve:
    """Names the shape of a curve of at least one position; ``length`` is the acceptance length, bonus included."""
    chain = conditionals(positions)
    if positions[0] < DEAD_BELOW:
        return Curve(Shape.DEAD, chain)
    if _falls_from_the_start(chain):
        return Curve(Shape.CLIFF, chain)
    cut = _cut_at(positions, chain)
    if cut is not None:
        return Curve(Shape.CUT, chain, cut)
    return Curve(Shape.WEAK if is_weak(length, len(positions), positions[0]) else Shape.HEALTHY, chain)


def _falls_from_the_start(c: tuple[float, ...]) -> bool:
    if len(c) >= 2 and c[1] < max(0.38 * c[0], 0.2):
        return True
    if len(c) < 3:
        return False
    return c[1] < 0.92 * c[0] and c[2] < 0.85 * c[1] and min(c[1:4]) < 0.5 * c[0]


def _cut_at(positions: tuple[float, ...], c: tuple[float, ...]) -> int | None:
    """The first position whose whole tail is under a fifth of what the even part before it promises."""
    for at in range(2, len(positions)):
        reached = positions[at - 1]
        if reached < SEEN:
            return None
        even = sum(c[1:at]) / (at - 1)
        if even < 0.4:
            return None
        left = len(positions) - at
        promised = reached * sum(even ** (step + 1) for step in range(left))
        if sum(positions[at:]) <= 0.2 * promised:
            return at
    return None


def is_weak(length: float, k: int, first: float | None) -> bool:
    """Even but low: worth a look, no proof of a fault (public healthy runs go down to 2.26 at k=3, 2.5 at k=7).

    ``first`` is the acceptance of the first position, where it is known.
    """
    if first is not None and first < 0.5:
        return True
    return length < {1: 1.4, 2: 1.6, 3: 1.9}.get(k, 2.2)
