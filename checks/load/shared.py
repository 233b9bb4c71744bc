"""What the rules of the load check share. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from checks.data.load_limits import Band
from checks.gpus.rule import Outcome, failed, passed, warned
from checks.load.evidence import tree

_ABSENT = (3, 13, "NOFUNC")
"""NVML's NotSupported and FunctionNotFound, and a binding without the function."""


def band(limits: Band, share: float) -> Callable[..., Outcome]:
    """What kind of outcome a share of the limit makes."""
    return passed if share >= limits.good else warned if share >= limits.bad else failed


def middle(values: Sequence[float]) -> float | None:
    ordered = sorted(values)
    return ordered[len(ordered) // 2] if ordered else None


def absent(value: Any) -> bool:
    """Whether NVML said that this hardware or driver cannot have the value."""
    return tree(value).get("err") in _ABSENT


def gap_words(value: Any) -> str:
    gap = tree(value)
    return f"{gap.get('msg') or 'no answer'} (code {gap.get('err')})"[:200] if gap else "not in the evidence"
