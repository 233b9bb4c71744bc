"""What several rules about drafters share: the bands of position-0 acceptance and who has layers to capture.

The bands are those measured on vLLM 0.20.1: below 0.01 untrained, foreign or no weights; 0.03-0.07 tensors missing
or mixed; 0.08-0.12 mask token or a rope 1000x off, which metrics cannot tell apart.
"""

from __future__ import annotations

from checks.serving.evidence import Evidence
from checks.serving.opinion import older
from checks.serving.signs import Signs


def layered(e: Evidence) -> bool:
    """Whether mask token and captured layers are part of this method at all."""
    return (
        e.drafter.dflash or e.method in ("dflash", "dspark") or (e.method is None and not e.drafter.present)
    )


def healthy(e: Evidence, s: Signs) -> bool:
    """Whether enough drafts were measured and accepted as a healthy drafter's are."""
    return e.acceptance is not None and s.enough and not (s.poor_acceptance or s.died or e.lookup)


def errors_of(e: Evidence) -> set[str]:
    return {error.row for error in e.log.errors}


def seen_healthy_before(e: Evidence) -> bool:
    """Whether the baseline shows this method healthy on another version of the engine, with no other drafter named."""
    base = e.baseline
    if base is None or base.engine != e.settings.engine or base.method != e.method or not base.length:
        return False
    named = base.settings.get("drafter"), e.settings.get("drafter")
    same = None in named or named[0] == named[1]
    return (
        same
        and bool(base.version and e.settings.version)
        and base.version != e.settings.version
        and base.length >= 1.5
    )


def runner_in_doubt(e: Evidence) -> bool:
    """vLLM's V2 runner: some healthy drafters accept nothing on it (vllm#49559, open), so zero proves nothing."""
    v2 = e.settings.get("runner") == "v2"
    return e.settings.engine == "vllm" and v2 and older(e.settings.version, "0.24.0") is False


NEARLY = 0.77
"""Weight of the second family near the border of two bands: named with the first, and behind it."""


def bordering(first: float | None) -> bool:
    """Whether noise decides between the bands of tensors and of mask or rope: swapped layers gave 0.064 and 0.077 in
    two runs, several config errors 0.077, the lowest wrong mask token 0.089."""
    return first is not None and 0.06 <= first < 0.085


def band_of(first: float | None) -> str:
    if first is None:
        return "none"
    return "gone" if first < 0.02 else "tensors" if first < 0.075 else "mask" if first < 0.15 else "alive"
