"""A journal as evidence: its lines as events, without secrets, and what of it is lost. Pure.

A journal may hold any text, since it quotes machines, and may be torn: a line that a crash cut, or that something else
wrote over, is counted and left out.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from checks.bundle.redact import Redactor
from provision.printable import printable

Event = Mapping[str, Any]
LONGEST = 16_384
"""Characters of one text; what is longer is cut in the report, and whole in the journal."""
_DEEPEST = 8
_NO_CHARACTER = re.compile("[\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
"""Half of a surrogate pair, which no UTF-8 can hold, and what Unicode calls no characters (HTML: a parse error)."""


@dataclass(frozen=True)
class Journal:
    """``lost``: in words, what could not be read of it."""

    run: str
    events: tuple[Event, ...]
    lost: tuple[str, ...] = ()


def read(run: str, raw: bytes) -> Journal:
    """The journal in ``raw``: one JSON object a line. Never raises: what is none is said in ``lost``."""
    redactor = Redactor(None)
    events: list[Event] = []
    garbage: list[int] = []
    lines = raw.split(b"\n")
    cut = bool(lines[-1])
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            event = json.loads(line.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            event = None
        if isinstance(event, dict) and isinstance(event.get("event"), str):
            events.append(_clean(redactor.data(_bounded(event))))
        else:
            garbage.append(number)
    lost = []
    if garbage and cut and garbage[-1] == len(lines):
        garbage.pop()
        lost.append("its last line was cut off, as by a crash or a power failure")
    if garbage:
        lost.append(f"{len(garbage)} line(s) are no events and are left out: {_numbers(garbage)}")
    return Journal(run, tuple(events), tuple(lost))


def _numbers(found: Sequence[int], most: int = 8) -> str:
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(map(str, found[:most])) + more


def _bounded(value: Any, depth: int = 0) -> Any:
    """The same within bounds: a text of any length, or lists in lists, would make a report that nobody can open."""
    if isinstance(value, str):
        more = len(value) - LONGEST
        return value if more <= 0 else f"{value[:LONGEST]}\n[{more} characters more are in the journal]"
    if isinstance(value, dict | list) and depth >= _DEEPEST:
        return "[deeper than is shown here; it is in the journal]"
    if isinstance(value, dict):
        return {str(name): _bounded(part, depth + 1) for name, part in value.items()}
    if isinstance(value, list):
        return [_bounded(part, depth + 1) for part in value]
    return value


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, dict):
        return {plain(name): _clean(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_clean(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def plain(text: str) -> str:
    """Control characters, and what turns the direction of a line around, as their escapes; only characters."""
    return _NO_CHARACTER.sub(lambda match: f"\\u{ord(match[0]):04x}", printable(text))


def text(event: Event, name: str) -> str:
    """A fact as text; empty where it is not there."""
    value = event.get(name)
    return value if isinstance(value, str) else "" if value is None else str(value)


def number(event: Event, name: str) -> float | None:
    """A fact as a number that can be one of a run: finite, not negative. None: not measured."""
    value = event.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < 1e18 else None


def texts(event: Event, name: str) -> tuple[str, ...]:
    value = event.get(name)
    return (
        tuple(one if isinstance(one, str) else str(one) for one in value) if isinstance(value, list) else ()
    )


def mappings(event: Event, name: str) -> tuple[Event, ...]:
    value = event.get(name)
    return tuple(one for one in value if isinstance(one, dict)) if isinstance(value, list) else ()


def numbers(event: Event, name: str) -> tuple[float, ...]:
    """A list of numbers; empty where one of them is none."""
    value = event.get(name)
    found = [number({"": one}, "") for one in value] if isinstance(value, list) else []
    return tuple(one for one in found if one is not None) if None not in found else ()


def when(event: Event) -> datetime | None:
    """The time of an event; None where it has none that can be read."""
    try:
        found = datetime.fromisoformat(text(event, "at"))
    except ValueError:
        return None
    return found if found.tzinfo is not None else None


def end(journal: Journal) -> Event | None:
    """The event that ended it; None while it goes on, as after it was taken up again."""
    last: Event | None = None
    for event in of(journal.events, "run", "step", "end"):
        last = event if event["event"] == "end" else None
    return last


def of(events: Iterable[Event], *kinds: str) -> tuple[Event, ...]:
    return tuple(event for event in events if event.get("event") in kinds)
