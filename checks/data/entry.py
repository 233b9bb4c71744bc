"""The form of a catalogue row."""

from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    """One finding id. ``example`` is a line of a report; ``source`` is where the rule comes from."""

    title: str
    why: str
    example: str
    fix: str
    source: str
