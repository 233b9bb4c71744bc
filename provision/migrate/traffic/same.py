"""Is the process that answers at an address the very service? By its counters, and by what it generates. Pure.

Counters of one process only rise, so what is read through the address lies between two readings at the service's own;
another process has other ones, whatever it answers. The same types are told apart by the Prometheus text format (TYPE).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass

from checks.data.metric_names import METRICS
from provision.migrate.traffic.messages import Reply

Counters = Mapping[str, float]

_GENERATED = {
    name for row in METRICS if row.field == "generation_tokens" for name in (row.vllm, row.sglang) if name
}


def counters(reply: Reply) -> Counters | None:
    """All that only rises, by series; None where there is no such page."""
    if reply.kind != "answered" or reply.status != 200:
        return None
    kinds: dict[str, str] = {}
    found: dict[str, float] = {}
    for line in reply.text.splitlines():
        if line.startswith("# TYPE "):
            name, _, kind = line[7:].strip().partition(" ")
            kinds[name] = kind
            continue
        if line.startswith("#") or not line.strip():
            continue
        series, _, number = line.strip().rpartition(" ")
        if not _rises(series.partition("{")[0], kinds):
            continue
        try:
            value = float(number)
        except ValueError:
            continue
        if math.isfinite(value):
            found[series] = value
    return found or None


def _rises(name: str, kinds: Mapping[str, str]) -> bool:
    if kinds.get(name, kinds.get(name.removesuffix("_total"))) == "counter":
        return True
    whole, _, part = name.rpartition("_")
    return part in ("bucket", "count", "sum") and kinds.get(whole) in ("histogram", "summary")


def generated(found: Counters | None) -> float | None:
    """Tokens that it has made in all; None where it does not count them."""
    values = [value for series, value in (found or {}).items() if series.partition("{")[0] in _GENERATED]
    return sum(values) if values else None


def other_than(before: Counters, there: Counters, after: Counters) -> str:
    """Why ``there`` cannot have been read from the process of the two readings around it; empty: it can."""
    for series, value in before.items():
        if series not in there:
            return f"it has no {series}, and the service has"
        if there[series] < value:
            return f"its {series} is {there[series]:g}, and the service's was {value:g} before"
    for series, value in there.items():
        if series not in after:
            return f"it has {series}, and the service has not"
        if value > after[series]:
            return f"its {series} is {value:g}, and the service's was {after[series]:g} afterwards"
    return ""


def steady(before: Counters, after: Counters) -> bool:
    """Do the service's own readings fit each other? Not where each worker counts for itself."""
    return not other_than(before, before, after)


@dataclass(frozen=True)
class Said:
    """A completion: its tokens and text, or why there is none."""

    tokens: int = 0
    text: str = ""
    why: str = ""


def said(reply: Reply) -> Said:
    """What an answer to ``/v1/completions`` holds."""
    if reply.kind != "answered" or reply.status != 200:
        return Said(why=reply.words())
    try:
        data = json.loads(reply.text)
        text = data["choices"][0]["text"]
        usage = data.get("usage") or {}
        tokens = usage.get("completion_tokens") or (1 if text else 0)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return Said(why="it answers 200, with nothing that a completion is")
    if not isinstance(text, str) or not isinstance(tokens, int) or tokens < 1:
        return Said(why="it answers 200, without a token")
    return Said(tokens, text)
