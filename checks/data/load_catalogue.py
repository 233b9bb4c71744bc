"""Findings of ``provcheck load``: GPUs at work."""

from __future__ import annotations

from checks.data.entry import Entry

LOAD: dict[str, Entry] = {}
