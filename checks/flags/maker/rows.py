"""One accepted option as a compact row, from the evaluated arguments of ``add_argument``."""

from __future__ import annotations

import re
from typing import Any

from checks.flags.maker.evaluate import UNKNOWN, Type

DEPRECATED_ACTIONS = {
    "DeprecatedAction": 0,
    "DeprecatedStoreTrueAction": 0,
    "DeprecatedStoreConstAction": 0,
    "DeprecatedAliasStoreAction": None,
}
FLAG = re.compile(r"--[a-z][a-z0-9-]+[a-z0-9](?:\.[a-z_]+)?")


SAID = re.compile(
    r"(?i)(?:^|[(.:*\[ ]) ?"
    r"(?:\[?deprecated\b(?! (?:and replaced|alias))|is deprecated|deprecated (?:now|in|since))"
)
"""A help text that says of its own option that it is on the way out, not of another one it mentions."""


def action_name(action: Any) -> str:
    """The name of an ``action=``: a text, or a class of the wheel."""
    if isinstance(action, str):
        return action
    return getattr(getattr(action, "node", None), "name", "") or ("" if action in (None, UNKNOWN) else "?")


def deprecation(names: list[str], kwargs: dict[str, Any]) -> tuple[str, str] | None:
    """What the engine says about a flag on its way out: (its words, the new spelling or an empty text)."""
    action = action_name(kwargs.get("action"))
    text = kwargs.get("help")
    flat = " ".join(text.split()) if isinstance(text, str) else ""
    marked = kwargs.get("deprecated") is True or action.startswith("Deprecated")
    said = SAID.search(flat)
    if not marked and not said:
        return None
    at = max(flat.lower().find("deprecat"), 0)
    start = flat.rfind(". ", 0, at) + 2 if ". " in flat[:at] else 0
    note = flat[start : start + 240]
    message = kwargs.get("error_message")
    words = message if isinstance(message, str) else note
    new = kwargs.get("new_flag")
    named = (
        new if isinstance(new, str) else next(iter(re.findall(r"(?i)use ['`\"]?(--[a-z0-9-]+)", words)), "")
    )
    found = named if named not in names else ""
    return words, found


def row_of(args: tuple[Any, ...], kwargs: dict[str, Any], *, paired: bool) -> dict[str, Any]:
    """A row: ``names`` and, where known, the other fields of ``checks.flags.table.Option``.

    ``paired`` says that this version's parser also accepts ``--disable-x`` for ``--enable-x``.
    """
    names = [str(a) for a in args]
    action = action_name(kwargs.get("action"))
    row: dict[str, Any] = {"names": names}
    nargs = kwargs.get("nargs")
    if action in ("store_true", "store_false", "store_const", "count", "version", "help"):
        nargs = 0
    if action == "BooleanOptionalAction":
        nargs = 0
        negated = [f"--no-{name[2:]}" for name in names if name.startswith("--")]
        swap = {"--enable-": "--disable-", "--disable-": "--enable-"}
        mirrored = [new + n[len(old) :] for n in names for old, new in swap.items() if n.startswith(old)]
        row["names"] = names + negated + (mirrored if paired else [])
    if action in DEPRECATED_ACTIONS and "nargs" not in kwargs:
        nargs = DEPRECATED_ACTIONS[action]
    if nargs is not None and nargs is not UNKNOWN:
        row["nargs"] = nargs
    if nargs != 0:
        row.update(_value(kwargs))
    said = deprecation(names, kwargs)
    if said:
        row["deprecated"] = said[0]
        if said[1]:
            row["replacement"] = said[1]
        if isinstance(kwargs.get("error_message"), str):
            row["stops"] = True
    if kwargs.get("required") is True:
        row["required"] = True
    return row


def _value(kwargs: dict[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    kind = kwargs.get("type", Type("str"))
    choices = kwargs.get("choices")
    if isinstance(kind, Type):
        out["type"] = kind.kind
        if kind.none:
            out["none"] = True
    else:
        out["type"] = "any"
    if choices is UNKNOWN:
        out["choices_unknown"] = True
    elif choices:
        out["choices"] = sorted((c for c in choices if c is not None), key=str)
    for extra in ("object", "known"):
        if kwargs.get(extra):
            out[extra] = kwargs[extra]
    return out
