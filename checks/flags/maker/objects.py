"""The keys, kinds and choices of JSON-valued options, from the records that validate them."""

from __future__ import annotations

import ast
from typing import Any

from checks.flags.maker.hints import Atom, atoms, fields
from checks.flags.maker.sources import Found, Wheel

BOUNDS = {"gt", "ge", "lt", "le"}


def object_fields(wheel: Wheel, found: dict[str, Found]) -> dict[str, dict[str, Any]]:
    """Record name to its keys; records that a key refers to are added until none is missing."""
    out: dict[str, dict[str, Any]] = {}
    waiting = dict(found)
    while waiting:
        name, record = waiting.popitem()
        out[name] = {}
        for item in fields(wheel, record).values():
            kinds = atoms(wheel, item.module, item.annotation)
            out[name][item.name] = _key(kinds, item.default)
            for atom in kinds:
                if atom.kind == "record" and atom.record and str(atom.values[0]) not in out:
                    waiting[str(atom.values[0])] = atom.record
    return dict(sorted(out.items()))


def _key(kinds: tuple[Atom, ...], default: ast.expr | None) -> dict[str, Any]:
    entry: dict[str, Any] = {"kinds": sorted({_kind(atom) for atom in kinds})}
    choices = [value for atom in kinds if atom.kind == "literal" for value in atom.values]
    if choices and not any(atom.kind in ("str", "other") for atom in kinds):
        entry["choices"] = sorted(choices, key=str)
    record = next((atom.values[0] for atom in kinds if atom.kind == "record"), None)
    if record:
        entry["object"] = record
    if isinstance(default, ast.Call):
        for keyword in default.keywords:
            if keyword.arg in BOUNDS and isinstance(keyword.value, (ast.Constant, ast.UnaryOp)):
                entry[keyword.arg] = ast.literal_eval(keyword.value)
            if (
                keyword.arg == "init"
                and isinstance(keyword.value, ast.Constant)
                and keyword.value.value is False
            ):
                entry["internal"] = True
    return entry


def _kind(atom: Atom) -> str:
    if atom.kind == "literal":
        return type(atom.values[0]).__name__ if atom.values else "other"
    return {"set": "list", "tuple": "list", "frozenset": "list"}.get(atom.kind, atom.kind)
