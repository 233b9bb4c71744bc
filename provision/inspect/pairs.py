"""How GPUs are joined, by a recorded ``nvidia-smi topo``: what the driver says, and what it does not prove. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from checks.gpus.texts import topology
from provision.inspect.report import Finding
from provision.inspect.texts import Output

_LEVELS = {10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
"""nvmlGpuTopologyLevel_t and the words of nvidia-smi for it."""
_SWITCHED = (10, 20)
_TRY = "provcheck nccl moves data over it and compares; iommu=pt, or ACS off while no virtual machine has a device"
_SOURCE = "NVIDIA/nccl#667, NVIDIA/nccl#1999; nvml.h"


def findings(output: Output) -> Iterator[Finding]:
    """One for each pair of GPUs."""
    told = set()
    for pair in topology.read(output.text).p2p or ():
        a, b = sorted((int(pair["a"]), int(pair["b"])))
        if (a, b) not in told:
            told.add((a, b))
            seen, meaning, next_step = _of(pair)
            yield Finding(
                f"pair.{seen.split(' ')[0].lower()}",
                "note",
                f"pair {a}-{b}",
                seen,
                meaning,
                next_step,
                _SOURCE,
            )


def _of(pair: Mapping[str, Any]) -> tuple[str, str, str]:
    if "links" in pair:
        return f"NVLink ({pair['links']})", "NVLinks join them: copies between them do not need PCIe", ""
    if "topo" in pair:
        word = _LEVELS.get(pair["topo"], "unknown")
        if pair["topo"] in _SWITCHED:
            meaning = (
                "no NVLink; direct copies cross PCIe switches, and hang or crawl while ACS redirects or VT-d "
                "translates"
            )
            return f"{word} (PCIe switches)", meaning, _TRY
        if pair["topo"] == 30:
            return f"{word} (one host bridge)", "no NVLink; direct copies go through the host bridge", _TRY
        return f"{word} (through the host)", "no NVLink; copies between them go through the host's memory", ""
    if pair.get("read") == 0:
        meaning = (
            "the driver calls peer-to-peer OK: that is its word and no proof, under an IOMMU or ACS it may still "
            "hang"
        )
        return "OK (driver's word)", meaning, _TRY
    if "read" in pair:
        return (
            "none (no peer-to-peer)",
            "no peer-to-peer: copies between them go through the host's memory",
            "",
        )
    return "unknown", "the cell of this pair is none that is known", ""
