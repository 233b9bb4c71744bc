"""Observes a service on another machine: the same look, taken there, its record brought here and judged here."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from checks import record as records
from checks import remote
from checks.errors import BadInput, Unreachable
from checks.model import Finding, Status
from checks.serving.observation import Observation
from checks.serving.record import of_record

PATHS = ("api_key_file", "log", "drafter", "target")
"""Options that name files of the other machine."""

_PLAIN = ("model", "passive", "seconds", "wait", "thinking", "context", "concurrency", "unit")


def observe(host: str, url: str, options: dict[str, Any]) -> Observation:
    """The observation taken on ``host``; what kept it from being taken is its only finding."""
    given = {name: options[name] for name in _PLAIN}
    given |= {name: str(options[name]) if options[name] else None for name in PATHS}
    given["since"] = None
    deadline = float(options["seconds"]) + float(options["wait"]) + 60.0
    try:
        printed = remote.call(host, ["_observe", url, json.dumps(given)], deadline)
        seen = of_record(records.parse(printed, host), host)
    except Unreachable as error:
        return _not_seen(host, str(error), error.cause, error.fix)
    except BadInput as error:
        return _not_seen(host, f"{host} sent no record: {error}", "a login script there may print", None)
    return replace(seen, live=True)


def _not_seen(host: str, message: str, cause: str | None, fix: str | None) -> Observation:
    finding = Finding("node.reachable", Status.UNKNOWN, "host", message, cause=cause, fix=fix)
    return Observation(findings=(finding,), host=host, live=True)
