"""Takes out of a record what names a board: serial numbers, and UUIDs when asked. The verdict stays the same."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from checks.record import Record

MASKED = "masked"
_SERIAL_KEY = re.compile(r"serial", re.IGNORECASE)
_SERIAL_TEXT = re.compile(
    rb"(serial(?:[ _]number)?\s*(?:is\s+|[:=]\s*|\s))([0-9][0-9A-Za-z-]{5,31})", re.IGNORECASE
)
_UUID = re.compile(r"\b(GPU|MIG)-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\b", re.IGNORECASE)


def record(whole: Record, *, serials: bool, uuids: bool) -> Record:
    """The record without serial numbers (``serials``) and with pseudonyms for UUIDs (``uuids``).

    A pseudonym is made of the UUID alone: two records of one GPU keep naming it alike. A serial number has too
    few digits to be hidden in a digest, so it is replaced by one word.
    """
    known = _serials(whole.nvml) if serials else frozenset()
    nvml = whole.nvml
    if serials:
        nvml = _walk(nvml, _without_serials(known), serials=True)
    if uuids:
        nvml = _walk(nvml, _pseudonyms, serials=False)
    sections = tuple(
        replace(section, data=_bytes(section.data, known, serials=serials, uuids=uuids))
        for section in whole.sections
    )
    return replace(whole, nvml=nvml, sections=sections)


def _serials(data: Any) -> frozenset[str]:
    """Values of every key that is called a serial, wherever it is."""
    found: set[str] = set()
    if isinstance(data, dict):
        for key, value in data.items():
            if _SERIAL_KEY.search(str(key)) and isinstance(value, str) and len(value) > 5:
                found.add(value.removeprefix("b:"))
            found |= _serials(value)
    elif isinstance(data, list):
        for item in data:
            found |= _serials(item)
    return frozenset(found)


def _walk(data: Any, text: Callable[[str], str], *, serials: bool) -> Any:
    if isinstance(data, dict):
        return {
            key: MASKED
            if serials
            and _SERIAL_KEY.search(str(key))
            and isinstance(value, (str, int))
            and not isinstance(value, bool)
            else _walk(value, text, serials=serials)
            for key, value in data.items()
        }
    if isinstance(data, list):
        return [_walk(item, text, serials=serials) for item in data]
    return text(data) if isinstance(data, str) else data


def _without_serials(known: frozenset[str]) -> Callable[[str], str]:
    def mask(text: str) -> str:
        for serial in known:
            text = text.replace(serial, MASKED)
        return text

    return mask


def _pseudonyms(text: str) -> str:
    return _UUID.sub(lambda found: f"{found[1]}-{_digest(found[2].lower())}", text)


def _digest(uuid: str) -> str:
    digest = hashlib.sha256(uuid.encode()).hexdigest()
    return "-".join((digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:32]))


def _bytes(data: bytes | None, known: frozenset[str], *, serials: bool, uuids: bool) -> bytes | None:
    if data is None:
        return None
    if serials:
        for serial in known:
            data = data.replace(serial.encode(), MASKED.encode())
        data = _SERIAL_TEXT.sub(rb"\1" + MASKED.encode(), data)
    if uuids:
        data = _pseudonyms(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
    return data
