"""What ``nvidia-smi`` says instead of a table: NVML did not start, or lists no GPU."""

from __future__ import annotations

import re

from checks.gpus import node
from checks.gpus.texts.evidence import Evidence
from checks.record import Section

_SAID = (
    (re.compile(r"Driver/library version mismatch", re.I), 18),
    (re.compile(r"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver", re.I), 9),
    (re.compile(r"Failed to initialize NVML: Driver Not Loaded", re.I), 9),
    (re.compile(r"Failed to initialize NVML: Insufficient Permissions", re.I), 4),
    (
        re.compile(
            r"Failed to initialize NVML: (?:NVML )?(?:Shared )?Library Not Found|couldn't find libnvidia-ml",
            re.I,
        ),
        12,
    ),
    (re.compile(r"Failed to initialize NVML: GPU is lost", re.I), 15),
    (re.compile(r"Failed to initialize NVML: \S[^\n]{0,60}", re.I), 999),
)
"""Words of nvidia-smi -> nvmlReturn_t, from the most certain."""
_NONE = re.compile(r"^\s*No devices were found\s*$", re.MULTILINE)
_LIBRARY = re.compile(r"NVML library version: (\d{3,4}(?:\.\d+){1,2})")
_CARRIES = ("driver.responds", "driver.loaded", "driver.library", "gpu.count")


def recognises(text: str) -> bool:
    return _code(text) is not None or _NONE.search(text) is not None


def _code(text: str) -> tuple[int, str] | None:
    return next(((code, found[0]) for pattern, code in _SAID if (found := pattern.search(text))), None)


def read(text: str) -> Evidence:
    said = _code(text)
    if said is None:
        return Evidence(count=0)
    code, words = said
    library = _LIBRARY.search(text)
    sections = (Section("link", node.LIBRARY, f"libnvidia-ml.so.{library[1]}".encode()),) if library else ()
    carries = {(one, "host") for one in _CARRIES} | ({("gpu.lost", "host")} if code == 15 else set())
    return Evidence(
        sections, extra=frozenset(carries), init={"err": code, "cls": "NVMLError", "msg": words[:80]}
    )
