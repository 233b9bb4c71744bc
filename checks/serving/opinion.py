"""What a rule may say of one cause: supported with a weight, excluded with a reason, or not knowable without more."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum


class Stance(str, Enum):
    SUPPORTED = "supported"
    EXCLUDED = "excluded"
    UNKNOWN = "unknown"
    SILENT = "silent"


@dataclass(frozen=True)
class Opinion:
    """``weight`` 0..1 ranks supported causes; equal weights are equal in rank. From 0.9 on something states it
    directly (a log line, a contradiction in a file); 0.5 to 0.8 is a signature; below is a possibility.

    ``ask`` is the command whose answer would settle it.
    """

    stance: Stance
    because: str = ""
    weight: float = 0.0
    ask: str | None = None


DIRECT, SIGNATURE, FITS, POSSIBLE = 0.95, 0.8, 0.5, 0.3


def supported(weight: float, because: str, ask: str | None = None) -> Opinion:
    return Opinion(Stance.SUPPORTED, because, weight, ask)


def excluded(because: str) -> Opinion:
    return Opinion(Stance.EXCLUDED, because)


def unknown(because: str, ask: str) -> Opinion:
    return Opinion(Stance.UNKNOWN, because, 0.0, ask)


SILENT = Opinion(Stance.SILENT)
"""The rule has nothing to do with this run (another method, no symptom): not worth a line."""


def older(version: str | None, limit: str) -> bool | None:
    """Whether an engine's release lies before another; None when unknown. Suffixes (rc, post, dev) do not count."""
    release = re.match(r"v?(\d{1,6}(?:\.\d{1,6})+)", version or "")
    if release is None:
        return None
    return _numbers(release[1]) < _numbers(limit)


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("."))


ASK_DRAFTER = "provcheck drafter DRAFTER_DIR --target TARGET_DIR --engine ENGINE==VERSION"
ASK_OFF = (
    "the same service started without speculation: provcheck serve URL --save-baseline off.json, then"
    " --baseline off.json here"
)
ASK_BASELINE = "a good run of the same engine and method: provcheck serve URL --save-baseline good.json"
ASK_CONTEXT = (
    "provcheck serve URL --save-baseline short.json, then provcheck serve URL --context 8192 --baseline"
    " short.json --diagnose"
)
ASK_LOG = "the engine's log from its start: provcheck serve URL --log FILE (or --unit NAME)"
