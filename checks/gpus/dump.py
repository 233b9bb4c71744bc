"""The NVML dump as typed values. A getter that gave nothing is a Gap, never a zero and never a default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from checks.errors import BadInput
from checks.gpus import shapes
from checks.gpus.getters import LINKS, MIG, P2P, SECTION_OF, SHAPES
from checks.gpus.parts import (
    ADDRESS,
    DIED,
    DRIVER_NOT_LOADED,
    FUNCTION_NOT_FOUND,
    GPU_IS_LOST,
    LIBRARY_NOT_FOUND,
    MISMATCH,
    NO_PERMISSION,
    NOT_ASKED,
    NOT_READ,
    NOT_SUPPORTED,
    TIMEOUT,
    UNINDEXED,
    UNKNOWN_ERROR,
    Gap,
    Pair,
    Process,
    Violation,
    subject_of,
)

__all__ = [
    "DIED",
    "DRIVER_NOT_LOADED",
    "FUNCTION_NOT_FOUND",
    "GPU_IS_LOST",
    "LIBRARY_NOT_FOUND",
    "MAX_GPUS",
    "MISMATCH",
    "NOT_ASKED",
    "NOT_READ",
    "NOT_SUPPORTED",
    "NO_PERMISSION",
    "PROCESS_KINDS",
    "TIMEOUT",
    "UNKNOWN_ERROR",
    "Dump",
    "Gap",
    "Gpu",
    "Pair",
    "Process",
    "Violation",
    "parse",
]

MAX_GPUS = 1024
PROCESS_KINDS = ("Compute", "Graphics", "MPSCompute")


@dataclass(frozen=True)
class Gpu:
    """One GPU as NVML enumerates it. ``values`` holds what each getter gave, checked for its shape."""

    index: int
    values: Mapping[str, Any] = field(repr=False)
    handle: Gap | None = None
    """The error with which NVML refused it; of such a GPU at most the address is known."""

    @property
    def subject(self) -> str:
        return subject_of(self.index, self.values)

    def number(self, key: str) -> int | Gap:
        value = self._value(key)
        return value if isinstance(value, (int, Gap)) else NOT_READ

    def text(self, key: str) -> str | Gap:
        """A text as ``words`` gives it."""
        value = self._value(key)
        return words(value) if isinstance(value, str) else value if isinstance(value, Gap) else NOT_READ

    def numbers(self, key: str) -> tuple[int, ...] | Gap:
        value = self._value(key)
        return value if isinstance(value, Gap) else tuple(value) if isinstance(value, list) else NOT_READ

    def struct(self, key: str) -> Mapping[str, Any] | Gap:
        value = self._value(key)
        return value if isinstance(value, (dict, Gap)) else NOT_READ

    def has(self, key: str) -> bool:
        """Whether the evidence holds this key at all, be it as an error."""
        return self.handle is not None or key in self.values

    def answered(self, key: str) -> Gap | None:
        """None when the call succeeded, for a getter that gives nothing else (nvmlDeviceValidateInforom)."""
        value = self._value(key)
        return value if isinstance(value, Gap) else None

    def processes(self, kind: str) -> tuple[Process, ...] | Gap:
        """The processes of a kind of PROCESS_KINDS."""
        value = self._value(f"nvmlDeviceGet{kind}RunningProcesses")
        if not isinstance(value, list):
            return value if isinstance(value, Gap) else NOT_READ
        return tuple(
            Process(
                one["pid"], one.get("usedGpuMemory"), one.get("name"), kind, one.get("namespace") == "other"
            )
            for one in value
        )

    def violation(self, name: str) -> Violation | Gap:
        """Of the policy power, thermal, sync, board, lowutil, reliab, total_app or total_base."""
        value = self.struct(f"viol_{name}")
        if isinstance(value, Gap):
            return value
        at, lost = value.get("referenceTime"), value.get("violationTime")
        return Violation(at, lost) if isinstance(at, int) and isinstance(lost, int) else NOT_READ

    def mig(self) -> tuple[Mapping[str, Any], ...] | Gap:
        """The MIG devices: uuid, name, memory, gi, ci; each may be an error object."""
        value = self._value(MIG)
        return tuple(value) if isinstance(value, list) else value if isinstance(value, Gap) else NOT_READ

    def by_field(self, name: str) -> int | Gap:
        """A value read by field id, by its name without the prefix NVML_FI_DEV_."""
        fields = self.struct("fields")
        if isinstance(fields, Gap):
            return fields
        entry = fields.get(f"NVML_FI_DEV_{name}")
        if entry is None:
            return NOT_READ
        if entry.get("ret") != 0:
            return Gap(entry.get("ret"), "field not readable").unnumbered
        # valueType 1 is an unsigned int, 3 an unsigned long long (nvml.h, nvmlValueType_t)
        value = entry.get("ui") if entry.get("type") == 1 else entry.get("ull")
        return value if isinstance(value, int) else NOT_READ

    def links(self) -> tuple[int | Gap, ...]:
        """State of each NVLink, 1 active and 0 inactive, in order."""
        return tuple(self.link(number, "state") for number in range(LINKS))

    def link(self, number: int, key: str) -> int | Gap:
        """Of one NVLink: state, remote_type, version, p2p_cap, replay, recovery, crc_flit, speed (MB/s)."""
        value = self._link(number, key)
        return value if isinstance(value, (int, Gap)) else NOT_READ

    def link_remote(self, number: int) -> Mapping[str, Any] | Gap:
        """The PCI address at the other end of one NVLink; all ones behind a hypervisor's switch."""
        value = self._link(number, "remote")
        return value if isinstance(value, (dict, Gap)) else NOT_READ

    def _link(self, number: int, key: str) -> Any:
        links = self.struct("nvlink")
        if isinstance(links, Gap):
            return links
        value = links.get(str(number), {}).get(key)
        gap = _gap(value)
        return value if gap is None else gap.unnumbered

    @property
    def name(self) -> str:
        name = self.text("nvmlDeviceGetName")
        return "" if isinstance(name, Gap) else name

    def lost(self) -> Gap | None:
        """The first answer that says that the GPU has fallen off the bus, if any getter gave one."""
        if self.handle is not None:
            return self.handle if self.handle.code == GPU_IS_LOST else None
        if GPU_IS_LOST not in self.codes:
            return None
        gaps = filter(None, map(_gap, self.values.values()))
        said = next((gap for gap in gaps if gap.code == GPU_IS_LOST), None)
        return said or Gap(GPU_IS_LOST, "GPU is lost")

    @cached_property
    def codes(self) -> frozenset[Any]:
        """The codes of all errors that its getters, its fields and its links gave."""
        fields, links = self.values.get("fields"), self.values.get("nvlink")
        parts = [value for value in (fields, links) if isinstance(value, dict) and "err" not in value]
        inner = [one for part in parts for one in part.values() if isinstance(one, dict)]
        gaps = [_gap(value) for one in (self.values, *inner) for value in one.values()]
        return frozenset(
            {gap.code for gap in gaps if gap}
            | {ret for one in inner if isinstance(ret := one.get("ret"), int)}
        )

    def cut_off(self) -> dict[str, Gap]:
        """The sections that hung or died: section -> why, by the getters they left without an answer."""
        if self.handle is not None:
            return {"handle": self.handle} if self.handle.code in (TIMEOUT, DIED) else {}
        links = self.values.get("nvlink")
        more = links.get("0", {}).get("version") if isinstance(links, dict) else None
        seen = {SECTION_OF.get(key, key): _gap(value) for key, value in self.values.items()}
        seen["nvlink_more"] = _gap(more)
        return {section: gap for section, gap in seen.items() if gap and gap.code in (TIMEOUT, DIED)}

    def _value(self, key: str) -> Any:
        if self.handle is not None and key not in self.values:
            return self.handle
        if key not in self.values:
            return NOT_READ
        value = self.values[key]
        return _gap(value) or value


@dataclass(frozen=True)
class Dump:
    """All that NVML said. ``init`` is the reason why it could not be started, None when it was."""

    init: Gap | None
    driver: str | Gap = NOT_READ
    library: str | Gap = NOT_READ
    count: int | Gap = NOT_READ
    gpus: tuple[Gpu, ...] = ()
    cuda: int | Gap = NOT_READ
    p2p: tuple[Pair, ...] | None = None
    """Ordered pairs of GPUs; None when the evidence has no such list."""

    def pairs(self) -> dict[tuple[int, int], Pair]:
        """By (a, b); an old dump holds those from the first two GPUs only."""
        return {(pair.a, pair.b): pair for pair in self.p2p or ()}


def parse(data: Mapping[str, Any], name: str) -> Dump:
    """Reads a dump; ``name`` is what errors call it. Raises BadInput when a part has the wrong type."""
    if "nvmlInit" not in data:
        raise BadInput(
            f"{name}: the NVML dump lacks nvmlInit, so it does not say whether NVML could be started"
        )
    init = data["nvmlInit"]
    if init is not None:
        gap = _gap(init)
        if gap is None:
            raise BadInput(f"{name}: nvmlInit must be null or an error object")
        return Dump(gap)
    devices = data.get("devices", [])
    if not isinstance(devices, list) or len(devices) > MAX_GPUS:
        raise BadInput(f"{name}: devices must be a list of at most {MAX_GPUS}")
    system = {key: _system(data, key, name) for key in SHAPES if key.startswith("nvmlSystem")}
    count = _system(data, "nvmlDeviceGetCount", name)
    if isinstance(count, int) and not 0 <= count <= MAX_GPUS:
        raise BadInput(f"{name}: nvmlDeviceGetCount must be 0 to {MAX_GPUS}")
    gpus = [_gpu(index, device, name) for index, device in enumerate(devices)]
    missing = range(len(gpus), count if isinstance(count, int) else 0)
    gpus += [Gpu(index, {}, NOT_READ) for index in missing]
    driver, library = system["nvmlSystemGetDriverVersion"], system["nvmlSystemGetNVMLVersion"]
    cuda = system["nvmlSystemGetCudaDriverVersion_v2"]
    return Dump(None, driver, library, count, tuple(gpus), cuda, _pairs(data, len(gpus), name))


def _pairs(data: Mapping[str, Any], count: int, name: str) -> tuple[Pair, ...] | None:
    rows = data.get(P2P)
    if rows is None:
        return None
    shapes.check_pairs(rows, f"{name}: {P2P}")
    if not all(0 <= row[end] < count for row in rows for end in ("a", "b")):
        raise BadInput(f"{name}: {P2P} names a GPU that is not among the {count} devices")
    asked = ("topo", "read", "write", "nvlink", "atomics", "pci")
    return tuple(
        Pair(row["a"], row["b"], *(_gap(row.get(key)) or row.get(key, NOT_READ) for key in asked))
        for row in rows
    )


def _gap(value: Any) -> Gap | None:
    if isinstance(value, dict) and "err" in value:
        code, text = value["err"], value.get("msg")
        known = isinstance(code, (int, str)) and not isinstance(code, bool)
        return Gap(code if known else None, text if isinstance(text, str) else "")
    return None


def _system(data: Mapping[str, Any], key: str, name: str) -> Any:
    if key not in data:
        return NOT_READ
    value = _gap(data[key]) or shapes.check(data[key], SHAPES[key], f"{name}: {key}")
    return words(value) if isinstance(value, str) else value


def words(text: str) -> str:
    """A text of NVML without the mark ``b:`` of a getter that still gives bytes, and without what pads it."""
    return text.removeprefix("b:").partition("\0")[0].strip()


def _gpu(index: int, device: Any, name: str) -> Gpu:
    where = f"{name}: devices[{index}]"
    if not isinstance(device, dict):
        raise BadInput(f"{where} must be an object")
    if "handle" in device:
        handle = _gap(device["handle"])
        if handle is None:
            raise BadInput(f"{where}.handle must be an error object")
        known = {key: device[key] for key in (ADDRESS, UNINDEXED) if key in device}
        shapes.check_device(known, where)
        return Gpu(index, known, handle)
    shapes.check_device(device, where)
    return Gpu(index, device)
