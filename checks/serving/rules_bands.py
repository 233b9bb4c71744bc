"""What several rules about drafters share: the bands of position-0 acceptance and who has layers to capture.

The bands are those measured on vLLM 0.20.1: below 0.01 untrained, foreign or no weights; 0.03-0.07 tensors missing
or mixed; 0.08-0.12 mask token or a rope 1000x off, which metrics cannot tell apart.
"""

from __future__ import annotations

from checks.serving.evidence import Evidence


def layered(e: Evidence) -> bool:
    """Whether mask token and captured layers are part of this method at all."""
    return (
        e.drafter.dflash or e.method in ("dflash", "dspark") or (e.method is None and not e.drafter.present)
    )


def errors_of(e: Evidence) -> set[str]:
    return {error.row for error in e.log.errors}


def band_of(first: float | None) -> str:
    if first is None:
        return "none"
    return "gone" if first < 0.02 else "tensors" if first < 0.075 else "mask" if first < 0.15 else "alive"
