"""The numbers of a reading as a journal has them: known names alone, and bounded, whatever a guest's file holds. Pure.

``tok_s`` decode tokens/s of one request; ``by_concurrency`` the same by how many requests there are; ``acceptance``
mean acceptance length; ``per_position`` share of drafts accepted; ``ttft_ms`` milliseconds to the first token.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

_MOST_POSITIONS, _MOST_LEVELS = 64, 16


def number(value: object) -> float | None:
    """A figure of a record; what is none, and what cannot be one, is not known."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e9:
        return None
    return float(value)


def reading(given: object) -> dict[str, Any] | None:
    """What ``checks.serving.trial.reading`` gave; None when none of it is a number."""
    if not isinstance(given, Mapping):
        return None
    levels, shares = given.get("by_concurrency"), given.get("per_position")
    found: dict[str, Any] = {name: number(given.get(name)) for name in ("tok_s", "acceptance", "ttft_ms")}
    found["by_concurrency"] = {
        str(level)[:6]: rate
        for level, value in (list(levels.items()) if isinstance(levels, Mapping) else [])[:_MOST_LEVELS]
        if (rate := number(value)) is not None
    }
    known = [number(share) for share in (shares if isinstance(shares, list) else [])[:_MOST_POSITIONS]]
    found["per_position"] = [] if None in known else known
    return {name: value for name, value in found.items() if value not in (None, {}, [])} or None


def baseline(text: str | None) -> dict[str, Any] | None:
    """The same of a kept baseline (``provcheck serve --save-baseline``); None when there is none."""
    try:
        data = json.loads(text or "")
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict):
        return None
    shares = data.get("positions")
    return reading(
        {
            "tok_s": data.get("tok_s"),
            "by_concurrency": data.get("by_concurrency"),
            "acceptance": data.get("length"),
            "per_position": [round(one, 4) if _finite(one) else one for one in shares]
            if isinstance(shares, list)
            else None,
        }
    )


def _finite(value: object) -> bool:
    return isinstance(value, float) and math.isfinite(value)
