"""Which environment variables of its own name space a wheel reads, and which it only warns about."""

from __future__ import annotations

import ast
from typing import Any

from checks.flags.maker.interpret import Interpreter
from checks.flags.maker.sources import ENV_NAME, Wheel, find

REGISTRY = ("sglang.srt.environ", "_DEPRECATED_ENVS")


def variables(wheel: Wheel) -> dict[str, dict[str, Any]]:
    """Name to ``{}`` or ``{"note", "replacement"}`` for one that is named only to say that it is gone."""
    alive: set[str] = set()
    gone = _deprecated(wheel)
    for name in wheel.python_files():
        source = wheel.text(name)
        if not ENV_NAME.search(source):
            continue
        for node in ast.walk(ast.parse(source)):
            found = _name(node)
            if found and ENV_NAME.fullmatch(found):
                alive.add(found)
    alive.update(name for name in wheel.binary_names() if ENV_NAME.fullmatch(name))
    return {name: gone.get(name, {}) for name in sorted(alive | set(gone))}


def _name(node: ast.AST) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value if len(node.value) < 100 else ""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _deprecated(wheel: Wheel) -> dict[str, dict[str, Any]]:
    """SGLang's registry of variables that only raise a warning, with its note and the name to use."""
    found = find(wheel, *REGISTRY)
    if found is None or not isinstance(found.node, ast.Dict):
        return {}
    out: dict[str, dict[str, Any]] = {}
    interpreter = Interpreter(wheel, lambda *_: None, lambda _: {}, scope=[(found.module, {}, None)])
    for key, value in zip(found.node.keys, found.node.values, strict=True):
        if not (isinstance(key, ast.Constant) and isinstance(value, ast.Call)):
            continue
        words = {k.arg: interpreter.value(k.value) for k in value.keywords}
        positional = interpreter.value(value.args[0]) if value.args else None
        replacement = words.get("replacement", positional)
        entry: dict[str, Any] = {"gone": True}
        if isinstance(words.get("note"), str):
            entry["note"] = words["note"]
        if isinstance(replacement, str):
            entry["replacement"] = replacement
        out[str(key.value)] = entry
    return out
