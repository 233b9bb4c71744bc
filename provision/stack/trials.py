"""What a guest remembers of a trial: the verdict on a profile, and the figures of it. Pure.

``/var/lib/kpro/trials/<service>.json`` holds the last one of a candidate, also of one that is the service and was made
anew because something beside it changed; an accepted one that a later trial replaced stays beside it as
``<service>.accepted.json``. ``<service>.service.json`` is the last cut-over of the service's own profile, and
``<service>.service.accepted.json`` the accepted one before it. ``<service>.back.json`` is the last way back to what
served before (``provision rollback --service``). What cannot be read as a verdict is none: nothing is put into service
on its word, and nothing is taken out of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from provision.stack import figures
from provision.stack.figures import number

FOLDER = "/var/lib/kpro/trials"
SCHEMA = "kpro-trial/1"
Verdict = Literal["accepted", "refused"]


class NoVerdict(ValueError):
    """The file is there and holds no verdict of this schema; the text says what it holds."""


@dataclass(frozen=True)
class Trial:
    """``digest``: of the profile at the service's address. ``asked``: what it was held to (``Cutover.asked``). ``of``:
    of which candidate (``Cutover.of``); empty where it was none. ``beside``: what the service said beside it
    (``sameness.beside``). Times in seconds, ``tok_s`` decode tokens/s of one request, ``acceptance`` the mean
    acceptance length; None: not measured. ``reading``: more of what was measured (``provision.stack.figures``)."""

    digest: str
    verdict: Verdict
    asked: str = ""
    why: str = ""
    mode: str = ""
    forecast: str = ""
    downtime_s: float | None = None
    start_s: float | None = None
    measured_s: float | None = None
    tok_s: float | None = None
    acceptance: float | None = None
    when: str = ""
    run: str = ""
    of: str = ""
    beside: str = ""
    reading: Mapping[str, Any] | None = None

    @property
    def accepted(self) -> bool:
        return self.verdict == "accepted"

    def as_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    def dump(self) -> bytes:
        """The record as it stands in its file."""
        return (json.dumps({"schema": SCHEMA, **self.as_dict()}, sort_keys=True) + "\n").encode()


def path(service: str) -> str:
    return f"{FOLDER}/{service}.json"


def accepted_path(service: str) -> str:
    return f"{FOLDER}/{service}.accepted.json"


def service_path(service: str) -> str:
    return f"{FOLDER}/{service}.service.json"


def service_accepted_path(service: str) -> str:
    return f"{FOLDER}/{service}.service.accepted.json"


def back_path(service: str) -> str:
    return f"{FOLDER}/{service}.back.json"


def read(text: str | None) -> Trial | None:
    """The verdict; None when there is no file. Raises NoVerdict."""
    if text is None:
        return None
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise NoVerdict("it is no JSON") from None
    if not isinstance(data, dict):
        raise NoVerdict("it is no object")
    if data.get("schema") != SCHEMA:
        raise NoVerdict(f"its schema is {str(data.get('schema'))[:40]!r}, and {SCHEMA} is read here")
    digest, verdict = data.get("digest"), data.get("verdict")
    if not isinstance(digest, str) or not re.fullmatch(r"[0-9a-f]{64}", digest):
        raise NoVerdict("it names no profile (digest)")
    if verdict not in ("accepted", "refused"):
        raise NoVerdict(f"its verdict is {str(verdict)[:40]!r}")
    words: dict[str, Any] = {
        name: _text(data.get(name))
        for name in ("asked", "why", "mode", "forecast", "when", "run", "of", "beside")
    }
    numbers: dict[str, Any] = {
        name: number(data.get(name))
        for name in ("downtime_s", "start_s", "measured_s", "tok_s", "acceptance")
    }
    return Trial(digest, verdict, **words, **numbers, reading=figures.reading(data.get("reading")))


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
