"""``--gpus``: a number and a model, a number and a size, or a recorded NVML dump. All in bytes that CUDA sees."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checks import record
from checks.data.gpu_memory import GPUS, LABEL_SHARE, usable_gib
from checks.errors import BadInput

GIB = 1 << 30
MOST = 1024


@dataclass(frozen=True)
class Gpus:
    """``usable`` bytes of each GPU in turn, and how they were known."""

    usable: tuple[int, ...]
    source: str
    ram: bool = False
    """The engine computes on processors: its memory is that of the machine."""

    @property
    def place(self) -> str:
        return "in memory" if self.ram else "on each GPU"

    @property
    def least(self) -> int:
        """The smallest GPU decides: every rank of a tensor-parallel group needs the same."""
        return min(self.usable)


def parse_gpus(text: str) -> Gpus:
    """``2xA6000``, ``A100-80GB``, ``2x48G``, or a file of ``provcheck gpus --record``. Raises BadInput."""
    path = Path(text)
    if len(text) < 4096 and path.is_file():
        return recorded(path)
    match = re.fullmatch(r"(?:(\d{1,4})\s*[xX*]\s*)?(.{1,60})", text.strip())
    count = int(match[1] or 1) if match else 0
    if match is None or not 1 <= count <= MOST:
        raise BadInput(
            f"--gpus {text[:60]!r}: give a number and a model or size, like 2xA6000 or 2x48G, or a record"
        )
    name = match[2].strip()
    size = re.fullmatch(r"(\d{1,4}(?:\.\d{1,2})?)\s*(?:G|GB|GiB)", name, re.IGNORECASE)
    if size:
        usable = int(float(size[1]) * LABEL_SHARE * GIB)
        return Gpus((usable,) * count, f"{name} by its label, {LABEL_SHARE:.0%} of it usable")
    gib = usable_gib(name)
    if gib is None:
        known = ", ".join(row.label for row in GPUS)
        raise BadInput(
            f"--gpus {name!r} is no GPU of the table; give its size instead, like {count}x48G ({known})"
        )
    return Gpus((int(gib * GIB),) * count, f"{name}: {gib:g} GiB usable each")


def recorded(path: Path) -> Gpus:
    """The GPUs of a record or a plain NVML dump. Raises BadInput."""
    return of_record(record.load(path), str(path))


def of_record(seen: record.Record, name: str) -> Gpus:
    """The GPUs that a record shows. Raises BadInput."""
    devices = seen.nvml.get("devices") if seen.nvml else None
    if not isinstance(devices, list) or not devices or len(devices) > MOST:
        raise BadInput(
            f"{name} shows no GPU; say which there will be, like 2xA6000, or ram for an engine without"
        )
    sizes = tuple(_usable(name, i, device) for i, device in enumerate(devices))
    return Gpus(sizes, f"seen on {name}" if name == "this machine" else f"recorded in {Path(name).name}")


def _usable(path: str, index: int, device: Any) -> int:
    memory = device.get("memv2") if isinstance(device, Mapping) else None
    plain = device.get("nvmlDeviceGetMemoryInfo") if isinstance(device, Mapping) else None
    for info in (memory, plain):
        if not isinstance(info, Mapping):
            continue
        total, reserved = info.get("total"), info.get("reserved", 0)
        if _size(total) and isinstance(reserved, int) and 0 <= reserved < int(total or 0):
            return int(total or 0) - reserved
    raise BadInput(
        f"{path}: gpu{index} has no memory size in the record; record it again on a machine that answers"
    )


def _size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 50
