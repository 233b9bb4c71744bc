"""By how much two readings of one and the same service differ: what is nearer than that is not better."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Noise:
    """``ratio``: the least that a reading must be of another one before it counts as faster."""

    quantity: str
    ratio: float
    seen: str
    source: str
    checked: str


ROWS = (
    Noise(
        "tok_s",
        1.1,
        "runs with identical counters differed by 7 % (872 and 937 tok/s); readings are good to 10 %",
        "vLLM 0.20.1 on one H200, 40 prompts of 128 tokens, one at a time, one run a row",
        "2026-11-29",
    ),
)


def ratio(quantity: str) -> float:
    """Raises KeyError for a quantity without a row."""
    return {row.quantity: row.ratio for row in ROWS}[quantity]
