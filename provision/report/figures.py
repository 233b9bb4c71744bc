"""Figures in words, as a page shows them. Pure."""

from __future__ import annotations

from provision.report.svg import short

NONE = "—"
"""What was not measured."""
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
FOLDED_CHARACTERS, FOLDED_LINES = 360, 5
"""What is longer is folded behind its first line."""
_FIRST = 140


def seconds(value: float | None) -> str:
    """``0.4 s``, ``4 min 10 s``, ``2 h 5 min``; a dash for what was not measured."""
    if value is None:
        return NONE
    if value < 60:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def size(value: float | None) -> str:
    """``1.25 GiB``."""
    if value is None:
        return NONE
    place = 0
    while value >= 1024 and place < len(_UNITS) - 1:
        value /= 1024
        place += 1
    return f"{short(value)} {_UNITS[place]}"


def rate(value: float | None) -> str:
    return NONE if value is None else f"{size(value)}/s"


def share(value: float | None) -> str:
    return NONE if value is None else f"{value * 100:.2f} %"


def figure(value: float | None, unit: str = "") -> str:
    return NONE if value is None else f"{short(value)} {unit}".strip()


def moment(text: str) -> str:
    """``2026-11-30 09:57:37 UTC`` of an ISO time; what is none stays as it is."""
    day, letter, rest = text.partition("T")
    clock = rest[:8]
    return f"{day} {clock} UTC" if letter and rest.endswith(("+00:00", "Z")) else text


def is_long(text: str) -> bool:
    return len(text) > FOLDED_CHARACTERS or text.count("\n") >= FOLDED_LINES


def first_line(text: str) -> str:
    """What stands for a folded text."""
    line = text.strip().split("\n", 1)[0]
    return line if len(line) <= _FIRST else f"{line[:_FIRST]}…"
