"""Records: the evidence of a run in one file, schema ``provcheck-record/1``, judged again anywhere.

    {schema, taken, host, sections: [{kind, path, b64, err}], nvml: {...}, serve: {...}}

A section with neither ``b64`` nor ``err`` says that the thing is positively absent. A plain NVML dump (it
has the key ``nvmlInit``) is a record without sections. Records come from anywhere, so they are read as
hostile input: at most 8 MiB, no NaN, every part of the type it must have.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from checks.errors import BadInput

SCHEMA = "provcheck-record/1"
SIZE_LIMIT = 8 << 20
DEPTH_LIMIT = 24


@dataclass(frozen=True)
class Section:
    """One look at a file or link: ``data`` None and ``error`` None means absent."""

    kind: str
    path: str
    data: bytes | None = None
    error: str | None = None

    def as_dict(self) -> dict[str, str | None]:
        b64 = None if self.data is None else base64.b64encode(self.data).decode()
        return {"kind": self.kind, "path": self.path, "b64": b64, "err": self.error}


@dataclass(frozen=True)
class Record:
    """``taken`` is UTC in ISO form, ``nvml`` the dump as read; both None when the record has none."""

    host: str | None = None
    taken: str | None = None
    sections: tuple[Section, ...] = ()
    nvml: Mapping[str, Any] | None = None
    serve: Mapping[str, Any] | None = field(default=None, repr=False)
    covers: frozenset[tuple[str, str]] | None = field(default=None, repr=False)
    """What a saved text can carry, as (finding id, subject); None for a record, which may carry all."""
    notes: tuple[str, ...] = field(default=(), repr=False)
    """What a reader should know of how the evidence was read; no part of what is kept."""

    def dump(self) -> bytes:
        """The record as JSON."""
        whole: dict[str, Any] = {"schema": SCHEMA, "taken": self.taken, "host": self.host}
        whole["sections"] = [section.as_dict() for section in self.sections]
        whole["nvml"] = self.nvml
        if self.serve is not None:
            whole["serve"] = self.serve
        return (json.dumps(whole, indent=1) + "\n").encode()


def load(path: Path) -> Record:
    """Reads a record file. Raises BadInput when it cannot be read or is no record."""
    try:
        with path.open("rb") as file:
            raw = file.read(SIZE_LIMIT + 1)
    except OSError as error:
        raise BadInput(f"cannot read the record {path}: {error.strerror}") from None
    return parse(raw, str(path))


def parse(raw: bytes, name: str) -> Record:
    """Bytes to a record; ``name`` is what errors call it. Raises BadInput when they are none."""
    if len(raw) > SIZE_LIMIT:
        raise BadInput(f"{name} is larger than {SIZE_LIMIT >> 20} MiB: no record of provcheck is")
    data = _json(raw, name)
    if not isinstance(data, dict):
        raise BadInput(
            f"{name} holds no JSON object, so it is no record; make one with 'provcheck gpus --record FILE'"
        )
    if "schema" not in data and "nvmlInit" in data:
        return Record(nvml=data)
    if data.get("schema") != SCHEMA:
        raise BadInput(f"{name} has schema {str(data.get('schema'))[:60]!r}; this provcheck reads {SCHEMA!r}")
    sections = data.get("sections", [])
    if not isinstance(sections, list):
        raise BadInput(f"{name}: sections must be a list")
    return Record(
        host=_text(data, "host", name),
        taken=_text(data, "taken", name),
        sections=tuple(
            _section(entry, f"{name}, section {number}") for number, entry in enumerate(sections, 1)
        ),
        nvml=_object(data, "nvml", name),
        serve=_object(data, "serve", name),
    )


def _json(raw: bytes, name: str) -> Any:
    def refuse(word: str) -> Any:
        raise ValueError(f"{word} is no JSON")

    try:
        data = json.loads(raw, parse_constant=refuse)
        _check_depth(data)
    except (ValueError, RecursionError) as error:
        if not raw.lstrip().startswith(b"{"):
            raise BadInput(
                f"{name} is no record of provcheck (JSON): make one with --record FILE; a saved text, such as that of"
                " nvidia-smi or dmesg, is judged by 'provcheck gpus --replay' alone"
            ) from None
        reason = "nested too deep" if isinstance(error, RecursionError) else str(error)[:120]
        raise BadInput(f"{name} is not JSON that a record could be: {reason}") from None
    return data


def _check_depth(data: Any) -> None:
    level = [data]
    for _ in range(DEPTH_LIMIT):
        level = [
            item
            for node in level
            if isinstance(node, (dict, list))
            for item in (node.values() if isinstance(node, dict) else node)
            if isinstance(item, (dict, list))
        ]
        if not level:
            return
    raise ValueError("nested too deep")


def _text(data: Mapping[str, Any], key: str, name: str) -> str | None:
    value = data.get(key)
    if value is not None and not (isinstance(value, str) and len(value) <= 4096):
        raise BadInput(f"{name}: {key} must be a text")
    return value


def _object(data: Mapping[str, Any], key: str, name: str) -> Mapping[str, Any] | None:
    value = data.get(key)
    if value is not None and not isinstance(value, dict):
        raise BadInput(f"{name}: {key} must be an object")
    return value


def _section(entry: Any, name: str) -> Section:
    if not isinstance(entry, dict):
        raise BadInput(f"{name} must be an object with kind, path, b64 and err")
    kind, path, b64, err = (_text_or_none(entry.get(key)) for key in ("kind", "path", "b64", "err"))
    if (
        kind is None
        or path is None
        or any(entry.get(k) is not None and not isinstance(entry[k], str) for k in entry)
    ):
        raise BadInput(f"{name} must have texts for kind and path, and texts or nulls for b64 and err")
    try:
        return Section(kind, path, None if b64 is None else base64.b64decode(b64, validate=True), err)
    except (binascii.Error, ValueError):
        raise BadInput(f"{name}: b64 is not base64") from None


def _text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) else None
