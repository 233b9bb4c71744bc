"""Specs as the text of an inventory file: only what is not the default, one argument a line where it is long. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from provision.init.describe import Description
from provision.spec_base import Spec

WIDTH = 110


def inventory_text(description: Description, docstring: str) -> str:
    """The whole file. What it says is read back as the same machine."""
    names = sorted(_used(description.machine))
    lines = [f'"""{docstring}"""', "", *_import(names), ""]
    lines += [f"# {line}" for remark in description.general for line in _wrapped(remark, WIDTH - 2)]
    lines += [f"machine = {_value(description.machine, 0, len('machine = '), description.at)}"]
    lines += ["metal, guests = machine.pyinfra_groups()", ""]
    return "\n".join(lines)


def _import(names: list[str]) -> list[str]:
    line = f"from provision.spec import {', '.join(names)}"
    if len(line) <= WIDTH:
        return [line]
    return ["from provision.spec import (", *(f"    {name}," for name in names), ")"]


def _used(value: Any) -> set[str]:
    if isinstance(value, Spec):
        return {type(value).__name__}.union(*(_used(inner) for _, inner in _arguments(value)))
    if isinstance(value, tuple | list):
        return set().union(*(_used(inner) for inner in value))
    return set()


def _arguments(spec: Spec) -> list[tuple[str, Any]]:
    """The fields that are not as they would be without being written."""
    found = []
    for name, field in type(spec).model_fields.items():
        value = getattr(spec, name)
        default = field.get_default(call_default_factory=True) if not field.is_required() else ...
        if value != default:
            found.append((name, value))
    return found


def _value(value: Any, depth: int, before: int, remarks: Mapping[int, list[str]]) -> str:
    """The text of a value that begins ``before`` columns after the indentation of its line."""
    if isinstance(value, Spec):
        parts = [(f"{name}=", inner) for name, inner in _arguments(value)]
        opening, closing = f"{type(value).__name__}(", ")"
    elif isinstance(value, tuple | list):
        parts, opening, closing = [("", inner) for inner in value], "[", "]"
    elif isinstance(value, dict):
        parts, opening, closing = [(f"{json.dumps(k)}: ", inner) for k, inner in value.items()], "{", "}"
    else:
        return _plain(value)
    said = remarks.get(id(value), []) if isinstance(value, Spec) else []
    flat = ", ".join(f"{name}{_value(inner, depth, 0, {})}" for name, inner in parts)
    line = f"{opening}{flat}{closing}"
    if (
        not said
        and "\n" not in line
        and 4 * depth + before + len(line) + 1 <= WIDTH
        and not _told(value, remarks)
    ):
        return line
    pad = "    " * (depth + 1)
    inner_lines = [f"{pad}# {text}" for remark in said for text in _wrapped(remark, WIDTH - len(pad) - 2)]
    inner_lines += [f"{pad}{name}{_value(inner, depth + 1, len(name), remarks)}," for name, inner in parts]
    return "\n".join([opening, *inner_lines, "    " * depth + closing])


def _told(value: Any, remarks: Mapping[int, list[str]]) -> bool:
    """Is there a remark on something inside?"""
    if isinstance(value, Spec):
        return bool(remarks.get(id(value))) or any(_told(inner, remarks) for _, inner in _arguments(value))
    return isinstance(value, tuple | list) and any(_told(inner, remarks) for inner in value)


def _plain(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False) if value.isprintable() else repr(value)
    return repr(value)


def _wrapped(text: str, width: int) -> list[str]:
    lines, line = [], ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > width:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}".strip()
    return [*lines, line]
