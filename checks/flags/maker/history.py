"""One table per engine over all its versions: a row once, with the versions it holds for."""

from __future__ import annotations

import json
from typing import Any

Versions = dict[str, dict[str, Any]]


def spans(indices: list[int]) -> list[int]:
    """Sorted indices as flat pairs of first and last: ``[0, 1, 2, 5]`` -> ``[0, 2, 5, 5]``."""
    out: list[int] = []
    for index in sorted(indices):
        if out and out[-1] == index - 1:
            out[-1] = index
        else:
            out += [index, index]
    return out


def inside(pairs: list[int], index: int) -> bool:
    return any(first <= index <= last for first, last in zip(pairs[::2], pairs[1::2], strict=True))


def merge(engine: str, versions: list[dict[str, str]], tables: Versions) -> dict[str, Any]:
    """All versions' tables as rows with spans. ``versions`` is in release order and keyed like ``tables``."""
    order = [entry["version"] for entry in versions]
    out: dict[str, Any] = {"engine": engine, "versions": versions, "flags": [], "objects": [], "env": []}
    out["positional"] = spans([i for i, v in enumerate(order) if tables[v]["positional"]])
    for kind in ("flags", "objects", "env"):
        seen: dict[str, list[int]] = {}
        for index, version in enumerate(order):
            for row in _rows(kind, tables[version][kind]):
                seen.setdefault(json.dumps(row, sort_keys=False), []).append(index)
        rows = [{**json.loads(text), "v": spans(sorted(set(indices)))} for text, indices in seen.items()]
        out[kind] = sorted(rows, key=lambda row: (str(row.get("name") or row["names"][0]), row["v"]))
    return out


def _rows(kind: str, value: Any) -> list[dict[str, Any]]:
    if kind == "flags":
        return list(value)
    return [{"name": name, **({"keys": body} if kind == "objects" else body)} for name, body in value.items()]


def split(table: dict[str, Any]) -> tuple[list[dict[str, str]], Versions]:
    """The inverse of `merge`, so that a version can be added without fetching the others again."""
    versions = table["versions"]
    tables: Versions = {}
    for index, entry in enumerate(versions):

        def held(kind: str, index: int = index) -> list[dict[str, Any]]:
            rows = (row for row in table[kind] if inside(row["v"], index))
            return [{k: v for k, v in row.items() if k != "v"} for row in rows]

        tables[entry["version"]] = {
            "flags": held("flags"),
            "objects": {row["name"]: row["keys"] for row in held("objects")},
            "env": {row["name"]: {k: v for k, v in row.items() if k != "name"} for row in held("env")},
            "positional": inside(table["positional"], index),
        }
    return versions, tables


def text(table: dict[str, Any]) -> str:
    """JSON with one row a line, so that a new version reads as a difference."""
    lines = ["{"]
    for key, value in table.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            body = ",\n".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in value)
            lines.append(f"{json.dumps(key)}:[\n{body}\n],")
        else:
            lines.append(f"{json.dumps(key)}:{json.dumps(value, separators=(',', ':'))},")
    return "\n".join(lines).rstrip(",") + "\n}\n"
