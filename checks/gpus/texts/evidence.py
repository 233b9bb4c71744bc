"""What a saved text shows, in the form that a record has: sections, and a partial NVML dump by GPU index."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from checks.gpus import parts
from checks.gpus.getters import LINKS
from checks.record import Section

NOT_SUPPORTED = {"err": 3, "cls": "NVMLError_NotSupported", "msg": "Not Supported"}

_WORDS = (
    (re.compile(r"\[?(?:N/A|Not Supported)\]?", re.I), 3),
    (re.compile(r"\[?Insufficient Permissions\]?", re.I), 4),
    (re.compile(r"\[?GPU is lost\.?\]?", re.I), 15),
    (re.compile(r"\[?(?:GPU )?requires reset\]?", re.I), 16),
    (re.compile(r"\[?(?:The )?requested functionality has been deprecated\]?", re.I), 26),
    (re.compile(r"\[?GPU access blocked by the operating system\]?", re.I), 17),
    (re.compile(r"\[?(?:Unknown Error|ERR!?)\]?", re.I), 999),
)
"""What nvidia-smi prints in place of a value, and the NVML code that it stands for (nvml.h, nvmlReturn_t)."""


@dataclass(frozen=True)
class Evidence:
    """``devices`` by NVML index, keys as in a dump. ``whole``: the text lists all GPUs, so their number is known.
    ``init``: the error with which NVML did not start. ``extra``: findings beyond those of the devices that this text
    can carry, as (id, subject)."""

    sections: tuple[Section, ...] = ()
    devices: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    driver: str | None = None
    count: int | Mapping[str, Any] | None = None
    p2p: tuple[Mapping[str, Any], ...] | None = None
    extra: frozenset[tuple[str, str]] = frozenset()
    init: Mapping[str, Any] | None = None


def cut(words: str, attached: int | None = None) -> dict[str, Any]:
    """In the place of a count: what the text does not show of the GPUs that it has begun to show."""
    return {"err": parts.CUT, "cls": "text", "msg": words, "attached": attached}


def gap(text: str) -> dict[str, Any] | None:
    """The error that nvidia-smi prints in place of a value; None for a value."""
    for pattern, code in _WORDS:
        if pattern.fullmatch(text.strip()):
            return (
                dict(NOT_SUPPORTED)
                if code == 3
                else {"err": code, "cls": "NVMLError", "msg": text.strip()[:60]}
            )
    return None


def links(states: Mapping[int, int]) -> dict[str, Any]:
    """``nvlink`` of a device from link number -> 1 active, 0 inactive; all others are not supported."""
    return {str(n): {"state": states.get(n, dict(NOT_SUPPORTED))} for n in range(LINKS)}


def number(text: str) -> int | None:
    """The leading whole number of ``16x``, ``36 C``, ``700.00 W``, ``262144 MiB``."""
    found = re.match(r"\s*(-?\d{1,15})(?:\.\d+)?(?!\d)", text)
    return int(found[1]) if found else None
