"""The command that goes on with a migration that a machine tells of, as it can be typed again. Pure.

The machines know each other by their names, and inventories are files of a controller: so the state files keep the
words that the two inventories were named by, quoted for a shell where they need it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

UNKNOWN = ("SOURCE-INVENTORY", "TARGET-INVENTORY")
"""Where a state file of an older version does not have them."""


def command(record: Any, *options: str) -> str:
    """``provision migrate …`` for a record (or the mapping that it was written as), with ``options`` behind it. In
    words where the record does not say which inventories they were."""
    one = record if isinstance(record, Mapping) else vars(record)
    words: Sequence[str] = one.get("words") or ()
    named = words if len(words) >= len(UNKNOWN) else UNKNOWN
    cold = ("--cold",) if one.get("cold") else ()
    return " ".join(("provision migrate", *named, *cold, *options))


def only_back(record: Mapping[str, Any]) -> bool:
    """Is a way back begun that is to be ended first?"""
    return record.get("back") in ("begun", "serves")


def ways_on(record: Mapping[str, Any]) -> str:
    """The next command of an open migration: whoever tells of it names the same."""
    if only_back(record):
        return command(record, "--rollback")
    return f"{command(record, '--resume')}, or --rollback"
