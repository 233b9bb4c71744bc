"""When the clients of a service that is being moved get no answer, by the state file of either machine. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SILENT = ("delta", "verify", "activate", "gate")
"""The steps with the source drained, and nobody led to the target yet."""
EITHER = ("drain", "switch")
"""That such a step began is written; whether it led requests already, is not."""


def unanswered(one: Mapping[str, Any]) -> str:
    """Of a record (as a mapping), in capitals; empty where it does not say so. In a cold migration it is the dead
    source that is silent, which nobody has to be told."""
    if one["state"] != "open" or one.get("cold") or one.get("back") in ("serves", "paused"):
        return ""
    if one["step"] in SILENT:
        return f"NOBODY ANSWERS for {one['service']} now"
    return f"NOBODY MAY ANSWER for {one['service']} now" if one["step"] in EITHER else ""


def first_of_all(one: Mapping[str, Any]) -> str:
    """The same before whatever else is said of it."""
    return f"{said}: " if (said := unanswered(one)) else ""
