"""``nvidia-smi topo -m`` and ``topo -p2p r``: a matrix of GPUs."""

from __future__ import annotations

import re
from typing import Any

from checks.gpus.texts.evidence import Evidence

_ANCESTOR = {"PIX": 10, "PXB": 20, "PHB": 30, "NODE": 40, "SYS": 50}
"""nvml.h, nvmlGpuTopologyLevel_t."""
_STATUS = {"OK": 0, "CNS": 1, "GNS": 2, "TNS": 3, "NS": 5, "U": 6}
"""nvml.h, nvmlGpuP2PStatus_t."""
_ROW = re.compile(r"^\s*GPU(\d{1,4})\s+(\S.*)$")
_UNDERLINED = r"(?:\x1b\[[\d;]*m)*"
_HEAD = re.compile(rf"^\s*{_UNDERLINED}\s*GPU0{_UNDERLINED}(?:\s|$)")
"""On a terminal nvidia-smi underlines its head."""


def recognises(text: str) -> bool:
    lines = text.splitlines()
    return any(map(starts, lines)) and any(_row(line) for line in lines)


def starts(line: str) -> bool:
    """Is this the head of a matrix?"""
    return _HEAD.match(line) is not None and _row(line) is None


def _row(line: str) -> tuple[int, list[str]] | None:
    found = _ROW.match(line)
    if found is None:
        return None
    cells = [cell.strip() for cell in found[2].split("\t")] if "\t" in found[2] else found[2].split()
    known = [
        cell
        for cell in cells
        if cell == "X" or cell in _STATUS or cell in _ANCESTOR or re.fullmatch(r"NV\d+", cell)
    ]
    return (int(found[1]), known) if "X" in known else None


def read(text: str) -> Evidence:
    rows = dict(row for line in text.splitlines() if (row := _row(line)) is not None)
    pairs = []
    for a, cells in rows.items():
        for b, cell in enumerate(cells[: len(rows)]):
            if b != a and b in rows:
                pairs.append({"a": a, "b": b, **_cell(cell)})
    subjects = {f"pair {min(p['a'], p['b'])}-{max(p['a'], p['b'])}" for p in pairs} or {"host"}
    return Evidence(
        devices={index: {} for index in rows},
        count=len(rows) if set(rows) == set(range(len(rows))) else None,
        p2p=tuple(pairs),
        extra=frozenset(("pcie.p2p", subject) for subject in subjects),
    )


def _cell(cell: str) -> dict[str, Any]:
    if cell in _STATUS:
        return {"read": _STATUS[cell]}
    if cell in _ANCESTOR:
        return {"topo": _ANCESTOR[cell]}
    number = re.fullmatch(r"NV(\d+)", cell)
    return {"nvlink": 0, "links": int(number[1])} if number else {}
