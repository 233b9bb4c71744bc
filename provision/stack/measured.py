"""A measurement of the GPUs that is kept in the guest, and for how long it holds. Pure.

``load`` and ``nccl`` use the GPUs, so they are asked while nobody else does, and their verdict is kept: a second run
has nothing to measure. One file each, the report of provcheck with what it holds for under ``kept``::

    /var/lib/kpro/measured/nccl.json           as the machine is: no way between its GPUs is switched off
    /var/lib/kpro/measured/nccl-service.json   with what the service switches off, so that the proof for it stays
    /var/lib/kpro/measured/load.json
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

FOLDER = "/var/lib/kpro/measured"
WAYS = frozenset({"NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", "NCCL_SHM_DISABLE", "NCCL_P2P_DIRECT_DISABLE"})
"""Variables that switch a way between GPUs off (NCCL user guide, environment variables)."""
FILES = ("load", "nccl", "nccl-service")


@dataclass(frozen=True)
class Keeping:
    """How long a green measurement of a gate counts: ``days`` at most, and not ``across_boots``."""

    gate: str
    days: int
    across_boots: bool
    why: str
    source: str


KEEPING = (
    Keeping(
        "load",
        30,
        False,
        "a boot trains the PCIe links anew, and one may come up narrower; fans and dust make a difference in weeks",
        "PCI Express Base: link training after reset; health-table, gpu.pcie_width",
    ),
    Keeping(
        "nccl",
        30,
        False,
        "ACS and the IOMMU, which decide on peer access, are set by firmware and kernel at boot",
        "NCCL troubleshooting: PCI Access Control Services; NVIDIA/nccl#667",
    ),
)


@dataclass(frozen=True)
class Place:
    """What a measurement is of. A part that is not known (None) is equal to nothing, itself included."""

    driver: str | None
    gpus: tuple[str, ...] | None
    provcheck: str
    boot: str | None
    variables: Mapping[str, str]

    @property
    def key(self) -> dict[str, Any] | None:
        if self.driver is None or not self.gpus or self.boot is None:
            return None
        return {
            "driver": self.driver,
            "gpus": sorted(self.gpus),
            "provcheck": self.provcheck,
            "boot": self.boot,
            "variables": dict(sorted(self.variables.items())),
        }


def place_of(gpu_facts: Mapping[str, Any], provcheck: str, boot: str, variables: Mapping[str, str]) -> Place:
    """From the facts of ``provcheck gpus``, the sha256 of provcheck.pyz and the kernel's boot_id."""
    seen = gpu_facts.get("gpus")
    uuids = [one.get("uuid") for one in seen if isinstance(one, Mapping)] if isinstance(seen, list) else []
    whole = tuple(uuid for uuid in uuids if isinstance(uuid, str))
    driver = gpu_facts.get("driver")
    return Place(
        driver if isinstance(driver, str) else None,
        whole if uuids and len(whole) == len(uuids) else None,
        provcheck,
        boot.strip() or None,
        variables,
    )


def path_of(gate: str, variables: Mapping[str, str]) -> str:
    return f"{FOLDER}/{gate}{'-service' if WAYS & variables.keys() else ''}.json"


def kept(report: Mapping[str, Any], place: Place, when: str, run: str) -> str | None:
    """The text of the file; None when it is not known what was measured, so that it holds for nothing."""
    if place.key is None:
        return None
    return json.dumps({**report, "kept": {"place": place.key, "when": when, "run": run}}, indent=1) + "\n"


def holds(text: str | None, gate: str, place: Place, now: datetime) -> str | None:
    """What was measured and when, where a kept green measurement still counts; None where it is to be made (anew)."""
    found = parsed(text)
    if found is None or place.key is None or found.get("verdict") not in ("pass", "warn"):
        return None
    if found.get("evidence") != "live":
        return None
    row = next(row for row in KEEPING if row.gate == gate)
    note = found["kept"]
    mine, theirs = dict(place.key), note.get("place")
    if row.across_boots and isinstance(theirs, dict):
        mine["boot"] = theirs.get("boot")
    when = _when(note.get("when"))
    if mine != theirs or when is None or not timedelta(0) <= now - when <= timedelta(days=row.days):
        return None
    return f"{found['verdict']}, as measured at {note['when']} in run {note.get('run')}"


def parsed(text: str | None) -> dict[str, Any] | None:
    """The file's content; None for what is none of ours, or cut off."""
    try:
        found = json.loads(text or "")
    except (ValueError, RecursionError):
        return None
    whole = (
        isinstance(found, dict)
        and found.get("schema") == "provcheck/1"
        and isinstance(found.get("kept"), dict)
    )
    return found if whole else None


def _when(text: object) -> datetime | None:
    try:
        found = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return found if found.tzinfo is not None else None
