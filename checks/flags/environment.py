"""Environment variables of an engine's own name space against what this version reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from checks.data.flagrules import ENVIRONMENT
from checks.flags.table import Table, nearest
from checks.flags.values import near

PREFIXES = {"vllm": ("VLLM_",), "sglang": ("SGLANG_", "SGL_")}


MOST = 400
"""Assignments that are judged; no line has more, and each may be compared with a thousand names."""


@dataclass(frozen=True)
class Problem:
    """A variable that does nothing, or not what it says. ``stops``: the engine refuses to start with it."""

    name: str
    message: str
    fix: str
    stops: bool = False


def problems(table: Table, environment: Mapping[str, str]) -> list[Problem]:
    """Variables of the command line that this version does not read, or that it has replaced."""
    out: list[Problem] = []
    for name in list(environment)[:MOST]:
        row = next((r for r in ENVIRONMENT if r.name == name and r.engine in ("", table.engine)), None)
        if name in table.environment:
            entry = table.environment[name]
            if entry.get("gone"):
                new = entry.get("replacement")
                said = entry.get("note") or (f"use {new}" if new else "it has no effect")
                message = f"{name} is only warned about: {said}"
                out.append(Problem(name, message, f"set {new}" if new else f"unset {name}"))
        elif row and not _later(table, name):
            value = (
                environment[name] if row.fix.startswith("write --") and len(environment[name]) < 60 else ""
            )
            out.append(Problem(name, f"{name} {row.message}", f"{row.fix} {value}".strip()))
        elif name.startswith(PREFIXES[table.engine]):
            out.append(_unread(table, name))
        elif other := next(
            (e for e, p in PREFIXES.items() if e != table.engine and name.startswith(p)), None
        ):
            out.append(
                Problem(name, f"{name} belongs to {other}; {table.engine} does not read it", f"unset {name}")
            )
    return out


def _later(table: Table, name: str) -> bool:
    """Whether a variable came only after this version."""
    seen, known = table.history.seen("env", name), table.history.versions
    return seen is not None and known.index(seen[0]) > known.index(_read(table))


def _read(table: Table) -> str:
    """The version of the table, or the one below it that was read."""
    below, above = nearest(table.history, table.version)
    return str(below or above)


def _unread(table: Table, name: str) -> Problem:
    renamed = "SGLANG_" + name[4:] if name.startswith("SGL_") else ""
    if renamed in table.environment:
        return Problem(name, f"{name} is read under its old prefix with a warning", f"set {renamed}")
    seen = table.history.seen("env", name)
    if seen:
        known = table.history.versions
        gone = known.index(seen[1]) < known.index(_read(table))
        when = f"was last read by {seen[1]}" if gone else f"is read from {seen[0]} on"
        return Problem(name, f"{name} {when}; {table.shown} ignores it", f"unset {name}")
    close = near(name, sorted(table.environment))
    hint = f"; did you mean {close}?" if close else ""
    return Problem(
        name, f"nothing in {table.shown} reads {name}{hint}", f"set {close}" if close else f"unset {name}"
    )
