"""The command that goes on with a migration that a machine tells of, as it can be typed again. Pure.

The machines know each other by their names, and inventories are files of a controller: so the state files keep the
words that the two inventories were named by.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

UNKNOWN = ("SOURCE-INVENTORY", "TARGET-INVENTORY")
"""Where a state file of an older version does not have them."""


def kept(source: str, target: str, service: str | None, folder: str) -> tuple[str, ...]:
    """The words of a command line, so that they mean the same from another folder than ``folder``: a bare word stays,
    a path becomes absolute."""
    named = tuple(
        word if re.fullmatch(r"[\w-]+", word) else str(PurePath(folder, word)) for word in (source, target)
    )
    return (*named, *(("--service", service) if service is not None else ()))


def command(record: Any, *options: str) -> str:
    """``provision migrate …`` for a record (or the mapping that it was written as), with ``options`` behind it. In
    words where the record does not say which inventories they were."""
    one = record if isinstance(record, Mapping) else vars(record)
    words: Sequence[str] = one.get("words") or ()
    named = " ".join(map(_typed, words)) if len(words) >= len(UNKNOWN) else " ".join(UNKNOWN)
    cold = ("--cold",) if one.get("cold") else ()
    return " ".join(("provision migrate", named, *cold, *options))


def _typed(word: str) -> str:
    """As whoever types it has to: most paths need no quotes."""
    if re.fullmatch(r"[\w./@%+=:,-]+", word, re.ASCII):
        return word
    return "'" + word.replace("'", "'\\''") + "'"
