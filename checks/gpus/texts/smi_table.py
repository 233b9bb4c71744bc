"""Plain ``nvidia-smi``: the table that people paste first. Two or three lines per GPU."""

from __future__ import annotations

import re
from typing import Any

from checks.gpus.texts.evidence import NOT_SUPPORTED, Evidence, cut, gap

_HEAD = re.compile(r"NVIDIA-SMI\s+\S+\s+Driver Version:\s+(\d+(?:\.\d+)+)")
_FIRST = re.compile(
    r"^\|\s+(\d{1,4})\s+(\S.*?)\s+(On|Off|N/A|ERR!)\s*\|\s*([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])\s+\S+"
    r"\s*\|\s*(\S+)\s*\|"
)
_SECOND = re.compile(
    r"^\|\s*(\S+)\s+(\d+C|ERR!|N/A)\s+\S+\s+(\d+W|ERR!|N/A)\s*/\s*(\d+W|ERR!|N/A)\s*\|\s*(?:(\d+)MiB\s*/\s*(\d+)MiB"
    r"|[^|]*)\|\s*(\d+%|ERR!|N/A)\s+(\S+)"
)
_LOST = re.compile(r"^\|[^|]*\|\s*GPU is lost\.?\s*\|", re.IGNORECASE)
_MIB, WIDTH = 1 << 20, 200
_MODES = {"Default": 0, "Prohibited": 2, "E.": 3, "Exclusive_Process": 3}


def recognises(text: str) -> bool:
    return _HEAD.search(text) is not None


def read(text: str) -> Evidence:
    driver = _HEAD.search(text)
    devices: dict[int, dict[str, Any]] = {}
    current: dict[str, Any] | None = None
    for line in text.splitlines():
        if len(line) > WIDTH:
            continue
        if found := _FIRST.match(line):
            current = devices[int(found[1])] = _first(found)
        elif current is not None and not _LOST.search(line) and (found := _SECOND.match(line)) is not None:
            current.update(_second(found))
            current = None
        elif current is not None and _LOST.search(line):
            current["handle"] = gap("GPU is lost")
            current = None
    if current is not None:
        current["handle"] = cut("the text ends within the rows of this GPU")
    whole = set(devices) == set(range(len(devices)))
    return Evidence(
        devices=devices,
        driver=driver[1] if driver else None,
        count=len(devices) if whole and devices else None,
    )


def _first(found: re.Match[str]) -> dict[str, Any]:
    """The name is cut off in narrow tables, so it is not believed."""
    on: Any = {"On": 1, "Off": 0}.get(found[3]) if found[3] in ("On", "Off") else gap(found[3])
    errors = found[5]
    device: dict[str, Any] = {
        "nvmlDeviceGetPciInfo": {"busId": found[4]},
        "nvmlDeviceGetPersistenceMode": on,
    }
    if not found[2].endswith("..."):
        device["nvmlDeviceGetName"] = found[2]
    if errors.isdecimal() and int(errors[:12]) > 0:  # of none since boot, the table says nothing of its life
        device.update(nvmlDeviceGetEccMode=[1, 1], ecc_unc_vol=int(errors[:12]))
    elif (error := gap(errors)) is not None and error != NOT_SUPPORTED:
        device["nvmlDeviceGetEccMode"] = device["ecc_unc_vol"] = device["ecc_unc_agg"] = error
    return device


def _second(found: re.Match[str]) -> dict[str, Any]:
    device: dict[str, Any] = {
        "temp": _measured(found[2], 1),
        "nvmlDeviceGetPowerUsage": _measured(found[3], 1000),
    }
    device["nvmlDeviceGetPowerManagementLimit"] = _measured(found[4], 1000)
    if found[5] is not None:
        used, total = int(found[5]) * _MIB, int(found[6]) * _MIB
        device["nvmlDeviceGetMemoryInfo"] = {"total": total, "free": max(total - used, 0), "used": used}
    if found[8] in _MODES:
        device["nvmlDeviceGetComputeMode"] = _MODES[found[8]]
    return device


def _measured(text: str, scale: int) -> Any:
    digits = re.match(r"\d+", text)
    return int(digits[0]) * scale if digits else gap(text)
