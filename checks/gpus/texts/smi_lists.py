"""``nvidia-smi -L``, ``nvidia-smi nvlink -s`` and ``-e``: one line per GPU, one per link or counter."""

from __future__ import annotations

import re
from typing import Any

from checks.gpus.getters import LINKS
from checks.gpus.texts.evidence import Evidence, links
from checks.gpus.texts.smi_query import UNREACHED, unreached

_GPU = re.compile(r"^GPU (\d{1,4}): (.{1,120}?) \(UUID: (GPU-[0-9A-Za-z-]{1,60})\)\s*$")
_LINK = re.compile(r"^\s+Link (\d{1,2}): (?:(<inactive>)|[\d.]+ GB/s)\s*$")
_ERRORS = re.compile(
    r"^\s+Link (\d{1,2}): (Replay|Recovery|CRC(?: FLIT)?) Errors?: (\d{1,15})\s*$", re.IGNORECASE
)
_COUNTERS = {"replay": "replay", "recovery": "recovery", "crc": "crc_flit", "crc flit": "crc_flit"}
_NONE_UP = re.compile(r"all links are in-?active", re.IGNORECASE)


def recognises(text: str) -> bool:
    """One GPU that answered is enough; the others may be named by their errors."""
    return any(_GPU.match(line) for line in text.splitlines())


def read(text: str) -> Evidence:
    devices: dict[int, dict[str, Any]] = {}
    states: dict[int, dict[int, int]] = {}
    counters: dict[int, dict[str, dict[str, int]]] = {}
    lost: list[re.Match[str]] = []
    index = 0
    for line in text.splitlines():
        if found := _GPU.match(line):
            index = int(found[1])
            devices[index] = {"nvmlDeviceGetName": found[2], "nvmlDeviceGetUUID": found[3]}
        elif refused := UNREACHED.search(line):
            lost.append(refused)
        elif link := _LINK.match(line):
            states.setdefault(index, {})[int(link[1])] = 0 if link[2] else 1
        elif (counted := _ERRORS.match(line)) and int(counted[1]) < LINKS:
            of_link = counters.setdefault(index, {}).setdefault(counted[1], {})
            of_link[_COUNTERS[counted[2].lower()]] = int(counted[3])
        elif _NONE_UP.search(line) and devices:
            states[index] = dict.fromkeys(range(LINKS), 0)
    for number, of_one in states.items():
        devices.setdefault(number, {})["nvlink"] = links({n: s for n, s in of_one.items() if n < LINKS})
    for number, errors in counters.items():
        shown = devices.setdefault(number, {}).setdefault("nvlink", {})
        for link_number, counts in errors.items():
            shown.setdefault(link_number, {}).update(counts)
    for refused in lost:
        devices[int(refused[1]) if refused[1] else max(devices) + 1] = unreached(refused)
    whole = set(devices) == set(range(len(devices)))
    return Evidence(devices=devices, count=len(devices) if whole else None)


def nothing() -> Evidence:
    """``nvidia-smi nvlink -s`` that printed nothing: no GPU there has links."""
    return Evidence(devices={0: {"nvlink": links({})}})
