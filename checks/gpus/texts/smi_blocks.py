"""Blocks of ``nvidia-smi -q`` that take more than one line for a key of the dump: fabric, ECC errors, limits. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from checks.gpus.texts.evidence import gap, number

Outline = Mapping[tuple[str, ...], str]

ON = {"enabled": 1, "disabled": 0, "on": 1, "off": 0, "active": 1, "not active": 0, "yes": 1, "no": 0}
_FABRIC = {"not supported": 0, "n/a": 0, "not started": 1, "in progress": 2, "completed": 3}
_STATUS = {"success": 0, "n/a": 0, "insufficient resources": 23, "not supported": 3, "timeout": 10}
_SUMMARY = {"healthy": 1, "unhealthy": 2, "limited capacity": 3}


def at(outline: Outline, *path: str) -> str | None:
    """The value whose path ends so; the shortest where several do."""
    fits = [key for key in outline if key[-len(path) :] == path]
    return outline[min(fits, key=len)] if fits else None


def fabric(outline: Outline) -> Any:
    state, status = at(outline, "Fabric", "State"), at(outline, "Fabric", "Status")
    if state is None:
        return None
    found: dict[str, Any] = {"state": _FABRIC.get(state.lower(), -1), "status": 0}
    if status is not None:
        found["status"] = _STATUS.get(status.lower(), 999)
    summary = at(outline, "Health", "Summary")
    if summary is not None:
        found["healthSummary"] = _SUMMARY.get(summary.lower(), 0)
    found["healthMask"] = _mask(outline)
    return found


def _mask(outline: Outline) -> int:
    """nvml.h: in the first four groups 1 is bad and 2 is good; in 'incorrect configuration' 1 is none."""
    mask = 0
    bad_words = {"true": 1, "degraded": 1, "false": 2, "full": 2}
    names = ("Bandwidth", "Route Recovery in progress", "Route Unhealthy", "Access Timeout Recovery")
    for shift, name in zip((0, 2, 4, 6), names, strict=True):
        mask |= bad_words.get((at(outline, "Health", name) or "").lower(), 0) << shift
    wrong = (at(outline, "Health", "Incorrect Configuration") or "n/a").lower()
    mask |= {"n/a": 0, "none": 1}.get(wrong, 2) << 8
    assigned = (at(outline, "Health", "Partition Assigned") or "").lower()
    return mask | {"true": 1, "false": 2}.get(assigned, 0) << 12


def errors(outline: Outline) -> dict[str, Any]:
    """Sums as NVML's total counters; the threshold flag of the SRAM."""
    found: dict[str, Any] = {}
    for scope, end in (("Volatile", "vol"), ("Aggregate", "agg")):
        under = {key: value for key, value in outline.items() if scope in key[:-1] and "ECC Errors" in key}
        bad = [
            v
            for k, v in under.items()
            if "Uncorrectable" in k[-1] or ("Double Bit" in k and k[-1] == "Total")
        ]
        mended = [
            v
            for k, v in under.items()
            if k[-1].endswith(" Correctable") or ("Single Bit" in k and k[-1] == "Total")
        ]
        for name, values in (("unc", bad), ("cor", mended)):
            counts = [n for value in values if (n := number(value)) is not None]
            if values:
                found[f"ecc_{name}_{end}"] = sum(counts) if counts else gap(values[0])
    over = at(outline, "SRAM Threshold Exceeded")
    if over is not None and over.strip().lower() in ON:
        found["sram_ecc"] = {"bThresholdExceeded": ON[over.strip().lower()]}
    return found


def thresholds(outline: Outline) -> dict[str, Any]:
    """Absolute limits, or newer drivers' distances to one: limit = temperature + its margin - the limit's margin."""
    names = {
        "tthr_shutdown": "GPU Shutdown",
        "tthr_slowdown": "GPU Slowdown",
        "tthr_gpu_max": "GPU Max Operating",
    }
    now, margin = number(at(outline, "GPU Current Temp") or ""), number(at(outline, "GPU T.Limit Temp") or "")
    found: dict[str, Any] = {}
    for key, name in names.items():
        plain, far = (
            number(at(outline, f"{name} Temp") or ""),
            number(at(outline, f"{name} T.Limit Temp") or ""),
        )
        if plain is not None:
            found[key] = plain
        elif None not in (far, now, margin):
            found[key] = (now or 0) + (margin or 0) - (far or 0)
    memory = number(at(outline, "Memory Max Operating Temp") or "")
    return found if memory is None else {**found, "tthr_mem_max": memory}
