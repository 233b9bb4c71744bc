"""What a person needs to lay hands on one GPU: a command that aims at this one alone, and a name for the board.

The number of a GPU moves when a board drops off the bus; its PCI address and UUID stay, and a replacement is ordered by
them. ``nvidia-smi`` without ``-i`` aims at every GPU of the host.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from checks.bdf import Bdf
from checks.gpus.dump import Gap, Gpu
from checks.model import Finding

_REPLACE = re.compile(r"(?<!were )\breplac")


def address(gpu: Gpu) -> Bdf | Gap:
    """Where the GPU is on the PCI bus."""
    pci = gpu.struct("nvmlDeviceGetPciInfo")
    if isinstance(pci, Gap):
        return pci
    try:
        return Bdf.parse(str(pci.get("busId")))
    except ValueError as error:
        return Gap("BadAddress", str(error)[:100])


def smi(gpu: Gpu, option: str) -> str:
    """``nvidia-smi -i 3 --gpu-reset (3 is 0000:3b:00.0)``; without an address that was read, the number alone."""
    at = address(gpu)
    return f"nvidia-smi -i {gpu.index} {option}" + ("" if isinstance(at, Gap) else f" ({gpu.index} is {at})")


def reset(gpu: Gpu) -> str:
    return f"drain the GPU, then reset it, {smi(gpu, '--gpu-reset')}, or reboot"


def with_board(findings: Iterable[Finding], gpus: Iterable[Mapping[str, Any]]) -> tuple[Finding, ...]:
    """The findings, those whose fix is another board with the board's name in it.

    ``gpus`` are rows of ``index``, ``pci`` and ``uuid``, the last two None where they are not known.
    """
    names = {f"gpu{row.get('index')}": _name(row) for row in gpus}
    return tuple(_named(one, names.get(one.subject, "")) for one in findings)


def _name(row: Mapping[str, Any]) -> str:
    return ", ".join(str(row[key]) for key in ("pci", "uuid") if row.get(key))


def _named(finding: Finding, name: str) -> Finding:
    if not name or not finding.fix or not _REPLACE.search(finding.fix):
        return finding
    return replace(finding, fix=f"{finding.fix} ({finding.subject} is {name})")
