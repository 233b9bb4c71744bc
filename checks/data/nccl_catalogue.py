"""Findings of ``provcheck nccl``: peer copies and collectives."""

from __future__ import annotations

from checks.data.entry import Entry

NCCL: dict[str, Entry] = {}
