"""An option that this version does not know: renamed, removed, of another version or engine, or misspelt."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from checks.data.flagrules import RENAMED
from checks.flags.masks import masked_arguments
from checks.flags.table import ENGINES, Table, history, nearest
from checks.flags.values import BadValue, convert, near
from checks.flags.words import Command

HIDDEN = re.compile(r"key|token|password|secret")
"""Options whose values are not repeated: they may be secrets, misspelt."""


@dataclass(frozen=True)
class Missing:
    """``check`` is ``renamed``, ``removed`` or ``unknown``; ``new``: the new spelling, if it is a plain one."""

    check: str
    name: str
    message: str
    fix: str
    new: str | None = None


def explain(table: Table, name: str, words: tuple[str, ...]) -> Missing:
    """Why a version does not know a name. ``words`` are the option and its values as they were given."""
    plain = name.replace("_", "-") if table.engine == "vllm" else name
    seen = table.history.seen("flags", plain)
    new = replacement(table, plain)
    if new:
        until = f"{table.engine} took it until {seen[1]}" if seen else "an earlier version had it"
        own_value = re.search(r"[ =]", new) is not None
        plain_new = None if re.search(r"[<{]", new) or (own_value and len(words) > 1) else new
        wrong = _refused(table, new, words)
        if wrong and own_value:
            text = f"{name} became {new} ({until}), and that value is gone too: {wrong}"
            return Missing("removed", name, text, f"drop {name}")
        kept = not own_value and not wrong and not HIDDEN.search(name)
        shown = [word for word in words[1:] if kept and len(word) < 60]
        text = f"{name} is now {new} ({until})" + (f", and {wrong}" if wrong else "")
        return Missing("renamed", name, text, " ".join(["write", new, *shown]), None if wrong else plain_new)
    if seen and _before(table, seen[1]):
        text = f"{name} is gone without a successor; {seen[1]} was the last to take it"
        return Missing("removed", name, text, f"drop {name}")
    if seen:
        came = f"{name} exists from {seen[0]} on"
        return Missing(
            "unknown", name, f"{came}, not yet in {table.version}", f"drop {name}, or use {seen[0]} or newer"
        )
    close = near(plain, sorted(table.options))
    elsewhere = [e for e in ENGINES if e != table.engine and history(e).seen("flags", plain)]
    if elsewhere and not close:
        message = f"{name} is an option of {elsewhere[0]}, not of {table.engine}"
        return Missing("unknown", name, message, f"drop {name}")
    hint = f"; did you mean {close}?" if close else ""
    return Missing(
        "unknown",
        name,
        f"{name} is in no version of {table.engine} that was read{hint}",
        f"write {close}" if close else f"drop {name}",
    )


def _refused(table: Table, new: str, words: tuple[str, ...]) -> str:
    """Why the new option does not take the value: its own in ``new``, or the ones that were given."""
    name, _, value = re.sub(r" ", "=", new, count=1).partition("=")
    option = table.options.get(name)
    if option is None or re.search(r"[<{.]", new) or HIDDEN.search(name):
        return ""
    for text in [value] if value else words[1:]:
        try:
            convert(option, text)
        except BadValue as error:
            return str(error)
    return ""


def replacement(table: Table, name: str) -> str | None:
    """The new spelling: as a release announced it, else from the rows read by hand; chains are followed."""
    for _ in range(5):
        row = next((r for r in RENAMED if r.engine == table.engine and r.old == name), None)
        new = row.new if row else table.history.said_instead(name)
        if new is None:
            return None
        if _names_an_option(table, new):
            return new
        name = re.split(r"[= .]", new)[0]
    return None


def _names_an_option(table: Table, text: str) -> bool:
    """Whether ``--cuda-graph-backend-{decode,prefill}=disabled`` and its like name known options."""
    name = re.split(r"[= .]", text)[0]
    match = re.fullmatch(r"(.*)\{([^}]*)\}(.*)", name)
    names = [match[1] + part + match[3] for part in match[2].split(",")] if match else [name]
    return all(one in table.options for one in names)


def _before(table: Table, version: str) -> bool:
    known = table.history.versions
    below, above = nearest(table.history, table.version)
    return known.index(version) < known.index(str(below or above))


def corrected(command: Command, missing: list[Missing], idle: set[str]) -> str | None:
    """The line with every renamed option in its new spelling and without variables that do nothing.

    None when nothing was renamed, or an unknown option has no successor of the same form. Secrets are masked.
    """
    if not missing or any(one.check != "renamed" or not one.new for one in missing):
        return None
    renames = {one.name: one.new or one.name for one in missing}
    variables = [f"{name}={value}" for name, value in command.environment.items() if name not in idle]
    words: list[str] = []
    for word in masked_arguments(command):
        name, separator, value = word.partition("=")
        new = renames.get(name, name)
        words += new.split(" ") if " " in new else [new + separator + value]
    return shlex.join([*variables, *command.shown, *words])
