"""Several records and texts of one machine as one record."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from checks import record as records
from checks.bdf import Bdf
from checks.errors import BadInput
from checks.gpus import kernlog, kernlogs, texts
from checks.gpus.parts import CUT, UNINDEXED
from checks.gpus.texts import coverage, log_order, storm
from checks.record import SIZE_LIMIT, Record, Section


def load(paths: Sequence[Path]) -> Record:
    """Reads every file, a record, a dump or a text, and joins them. Raises BadInput when one is none of these."""
    return join([_one(path) for path in paths])


def _one(path: Path) -> Record:
    try:
        with path.open("rb") as file:
            raw = file.read(SIZE_LIMIT + 1)
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}") from None
    if not path.is_file() and len(raw) > SIZE_LIMIT:
        raise BadInput(
            f"{path} is larger than {SIZE_LIMIT >> 20} MiB and no file; save it, and give the name of that file"
        )
    if storm.is_large(path, raw):
        return storm.read(path)
    raw = texts.plain(raw, str(path))
    if raw.lstrip().startswith(b"{"):
        return records.parse(raw, str(path))
    return texts.read(raw, str(path))


def join(parts: Sequence[Record], where: str = "the files") -> Record:
    """The first that says something holds; logs follow one another. A GPU is the same by PCI address, else by index.
    ``where`` is what errors call the parts."""
    if len(parts) == 1:
        return parts[0]
    _agree(parts, where)
    nvml = _dump([dict(part.nvml) for part in parts if part.nvml is not None])
    return Record(
        host=next((part.host for part in parts if part.host), None),
        taken=next((part.taken for part in parts if part.taken), None),
        sections=_sections(parts),
        nvml=nvml,
        covers=_covers(parts, nvml),
        notes=tuple(note for part in parts for note in part.notes),
    )


def _agree(parts: Sequence[Record], where: str) -> None:
    """Two whole dumps, or NVML that answered in one part and not in another, are no single look at one machine.
    Raises BadInput: neither may hide the other."""
    if sum(part.covers is None and part.nvml is not None for part in parts) > 1:
        raise BadInput(
            "two of the files are whole records: replay them one by one, or give the earlier one with --since"
        )
    dumps = [part.nvml for part in parts if part.nvml is not None]
    if any(dump.get("nvmlInit") for dump in dumps) and any(
        dump.get("nvmlInit") is None and dump.get("devices") for dump in dumps
    ):
        raise BadInput(f"{where}: NVML answered in one of them and not in another; replay them one by one")


def _covers(parts: Sequence[Record], nvml: dict[str, Any] | None) -> frozenset[tuple[str, str]] | None:
    """Places of GPUs may have changed, so what the texts show of them is told anew."""
    if any(part.covers is None for part in parts):
        return None
    found = (nvml or {}).get("devices")
    devices = dict(enumerate(found)) if isinstance(found, list) else {}
    others = {item for part in parts for item in part.covers or () if not re.fullmatch(r"gpu\d+", item[1])}
    return coverage.of_devices(devices) | others


def _sections(parts: Sequence[Record]) -> tuple[Section, ...]:
    found: dict[tuple[str, str], Section] = {}
    for part in parts:
        for section in part.sections:
            key = (section.kind, section.path)
            old = found.get(key)
            if old is None or old.data is None:
                found[key] = section
            elif section.kind == "log" and section.data is not None:
                found[key] = Section(*key, old.data + section.data)
    return (*(one for one in found.values() if not kernlogs.is_one(one)), *_logs(parts, found.get(_LOG)))


_LOG = (kernlog.KIND, kernlog.PATH)


def _logs(parts: Sequence[Record], first: Section | None) -> Iterator[Section]:
    """The kernel logs of all parts, in the order of their times or side by side. One that does not mention the driver
    says nothing beside one that does."""
    every = [one for part in parts for one in part.sections if kernlogs.is_one(one)]
    told = [one for one in every if one.data is not None and one.error is None]
    told = told or [one for one in every if one.data is not None]
    if len(told) < 2:
        yield from told or filter(None, (first,))
        return
    texts = [(one.data or b"").decode(errors="replace") for one in told]
    for number, text in enumerate(log_order.together(texts)):
        yield Section(_LOG[0], kernlogs.path(number), text.encode(), told[0].error)


def _dump(dumps: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    if not dumps:
        return None
    whole = dict(dumps[0])
    for dump in dumps[1:]:
        if dump.get("nvmlInit") is not None:
            whole = {**whole, **dump}
            continue
        devices = _devices(whole.get("devices"), dump.get("devices"))
        counts = [one for one in (whole.get(_COUNT), dump.get(_COUNT)) if one is not None]
        whole = {**dump, **whole}
        if devices is not None:
            whole["devices"] = devices
        if counts:
            whole[_COUNT] = _count(counts, devices or [])
    return whole


_COUNT = "nvmlDeviceGetCount"
_LIVE = ("temp", "nvmlDeviceGetPowerUsage", "nvmlDeviceGetMemoryInfo", "handle")


def _count(counts: Sequence[Any], devices: Sequence[Any]) -> Any:
    """The first; a text that was cut is not mended by one that only counts the GPUs, but by one that shows each."""
    gaps = [one for one in counts if isinstance(one, dict) and one.get("err") == CUT]
    plain = [one for one in counts if one not in gaps]
    if not gaps:
        return counts[0]
    shown = sum(isinstance(one, dict) and any(key in one for key in _LIVE) for one in devices)
    whole = plain and shown >= max(gap.get("attached") or 0 for gap in gaps)
    return plain[0] if whole else gaps[0]


def _devices(ours: Any, theirs: Any) -> list[Any] | None:
    if not isinstance(ours, list) or not isinstance(theirs, list):
        return ours if isinstance(ours, list) else theirs if isinstance(theirs, list) else None
    found = list(ours)
    places = {bus: at for at, device in enumerate(found) if (bus := _address(device)) is not None}
    for index, device in enumerate(theirs):
        at = _place(device, index, places, len(found))
        while at >= len(found):
            found.append({})
        if isinstance(found[at], dict) and isinstance(device, dict):
            found[at] = _merged(found[at], device)
    return found


def _merged(ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    """A GPU whose index one of them knows has it; one that could not be reached shows nothing else."""
    both = dict(ours) if "handle" in ours else {**theirs, **ours}
    if (ours and UNINDEXED not in ours) or UNINDEXED not in theirs:
        both.pop(UNINDEXED, None)
    return both


def _place(device: Any, index: int, places: dict[Bdf, int], end: int) -> int:
    """Where a GPU goes: to its address; without one, or to a place whose address is not known, by its index."""
    bus = _address(device)
    if bus in places:
        return places[bus]
    return end if bus is not None and index in places.values() else index


def _address(device: Any) -> Bdf | None:
    try:
        return Bdf.parse(str(device["nvmlDeviceGetPciInfo"]["busId"]))
    except (KeyError, TypeError, ValueError):
        return None
