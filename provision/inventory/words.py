"""Mistakes of the file itself, one line each: Python errors, and lists that pyinfra takes for hosts."""

from __future__ import annotations

import ast
from typing import Any

from provision.inventory.reading import Reading
from provision.spec import HostGroup


def failure(error: BaseException, reading: Reading) -> str:
    """A Python error in one line: file, line, what it said."""
    line, step = 1, error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename == str(reading.path):
            line = step.tb_lineno
        step = step.tb_next
    if isinstance(error, SystemExit):
        return f"{reading.at(line)}: the file ends the program (SystemExit): an inventory only describes"
    text = " ".join(str(error).split())
    if isinstance(error, TypeError) and "positional argument" in text and "__init__" in text:
        text = "a spec takes its fields by name: Machine(name='kpro5', …)"
    return f"{reading.at(line)}: {type(error).__name__}: {text}"


def lists(reading: Reading, source: str) -> list[str]:
    """pyinfra takes every public list or tuple of an inventory for hosts; only groups of specs are hosts."""
    lines = {
        node.id: node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    return [
        f"{name}: {_what(value)} at the top of the file: pyinfra would take {_example(value)} for hosts; "
        f"call it _{name}, or make a host group of it with HostGroup(…) ({reading.at(lines.get(name, 1))})"
        for name, value in reading.names.items()
        if isinstance(value, list | tuple) and not isinstance(value, HostGroup)
    ]


def _what(value: list[Any] | tuple[Any, ...]) -> str:
    kinds = {type(item).__name__ for item in value}
    of = (
        {"str": " of strings", "Machine": " of machines"}.get(next(iter(kinds)), "")
        if len(kinds) == 1
        else ""
    )
    return f"a {type(value).__name__}{of}"


def _example(value: list[Any] | tuple[Any, ...]) -> str:
    texts = [item for item in value if isinstance(item, str)]
    return ", ".join(map(repr, texts[:3])) if texts else "its members"
