"""Reads safetensors headers: names, types and shapes of tensors, never their values.

The layout is eight bytes of little-endian length, a JSON object of that length, then the data
(huggingface/safetensors, README, "Format"). The file comes from outside, so nothing in it is believed: the
length is bounded before anything is read, offsets must tile the data exactly, and shape times type must equal
the bytes.
"""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard

from checks.bounded_json import BadJson, parse_object

MAX_HEADER_BYTES = 16 * 2**20
"""Larger than any published header (100,000 tensors take about 13 MB); the format's own limit is 100 MB."""

DTYPE_BITS: Mapping[str, int] = {
    "BOOL": 8,
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    "U8": 8,
    "I8": 8,
    "F8_E5M2": 8,
    "F8_E4M3": 8,
    "F8_E5M2FNUZ": 8,
    "F8_E4M3FNUZ": 8,
    "F8_E8M0": 8,
    "I16": 16,
    "U16": 16,
    "F16": 16,
    "BF16": 16,
    "I32": 32,
    "U32": 32,
    "F32": 32,
    "C64": 64,
    "F64": 64,
    "I64": 64,
    "U64": 64,
}
"""Bits per element of each type name (safetensors 0.7, ``Dtype``)."""


class BadSafetensors(ValueError):
    """The file is no complete safetensors file.

    The text says what was seen, why it matters and what to do.
    """


@dataclass(frozen=True)
class Tensor:
    """Type name (``BF16``) and shape of one tensor."""

    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Header:
    """What one file declares.

    ``digest`` is the SHA-256 of the header alone: it pins the geometry, not the weights.
    """

    tensors: Mapping[str, Tensor]
    metadata: Mapping[str, str]
    file_bytes: int
    digest: str


def read_header(path: Path) -> Header:
    """Reads and checks the header of one file.

    Raises BadSafetensors for anything that is not a whole and consistent file, and OSError when it cannot be
    read. Memory stays within a small multiple of MAX_HEADER_BYTES whatever the file claims.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise BadSafetensors(f"{path.name} is not a regular file")
    with path.open("rb") as stream:
        size = path.stat().st_size
        prefix = stream.read(8)
        if len(prefix) < 8:
            raise BadSafetensors(
                f"{path.name} ends after {len(prefix)} bytes: no safetensors file; download it again"
            )
        length = int.from_bytes(prefix, "little")
        if length > MAX_HEADER_BYTES:
            raise BadSafetensors(
                f"{path.name} claims a header of {length} bytes (read are at most {MAX_HEADER_BYTES}): "
                "not a safetensors file, or a hostile one; compare its checksum with the publisher's"
            )
        if length > size - 8:
            raise BadSafetensors(
                f"{path.name} claims a header of {length} bytes but has {size}: cut off; download it again"
            )
        raw = stream.read(length)
    return parse_header(raw, size - 8 - length, path.name)


def parse_header(raw: bytes, data_bytes: int, name: str) -> Header:
    """Judges a header against the ``data_bytes`` that follow it.

    ``name`` is for messages. Raises BadSafetensors.
    """
    try:
        content = parse_object(raw, what=f"the header of {name}")
    except BadJson as error:
        raise BadSafetensors(
            f"{error}: not a safetensors file, or a damaged one; download it again"
        ) from None
    tensors: dict[str, Tensor] = {}
    spans: list[tuple[int, int, str]] = []
    metadata: dict[str, str] = {}
    for key, value in content.items():
        if key == "__metadata__":
            if isinstance(value, dict):
                metadata = {k: v for k, v in value.items() if isinstance(v, str)}
            continue
        tensor, begin, end = _entry(name, key, value)
        tensors[key] = tensor
        spans.append((begin, end, key))
    _tiles(name, spans, data_bytes)
    return Header(tensors, metadata, data_bytes + 8 + len(raw), hashlib.sha256(raw).hexdigest())


def _entry(name: str, key: str, value: object) -> tuple[Tensor, int, int]:
    fields = value if isinstance(value, dict) else {}
    dtype, shape, offsets = fields.get("dtype"), fields.get("shape"), fields.get("data_offsets")
    if not (isinstance(dtype, str) and _naturals(shape) and _naturals(offsets) and len(offsets) == 2):
        raise BadSafetensors(
            f"{name}: tensor {key[:120]!r} lacks a proper dtype, shape or data_offsets; download again"
        )
    bits = DTYPE_BITS.get(dtype)
    if bits is None:
        raise BadSafetensors(f"{name}: tensor {key[:120]!r} has the unknown type {dtype[:20]!r}")
    elements = 1
    for extent in shape:
        elements *= extent
        if elements > 2**63:
            raise BadSafetensors(f"{name}: tensor {key[:120]!r} claims an impossible shape")
    begin, end = offsets
    if end - begin != -(-elements * bits // 8):
        raise BadSafetensors(
            f"{name}: tensor {key[:120]!r} of shape {shape} and type {dtype} needs "
            f"{elements * bits // 8} bytes, "
            f"its offsets give {end - begin}: the header does not describe the data; do not load this file"
        )
    return Tensor(dtype, tuple(shape)), begin, end


def _naturals(value: object) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(type(item) is int and item >= 0 for item in value)


def _tiles(name: str, spans: list[tuple[int, int, str]], data_bytes: int) -> None:
    """Tensors lie back to back and fill the file; anything else is a cut-off download or a lie."""
    position = 0
    for begin, end, key in sorted(spans):
        if begin != position:
            raise BadSafetensors(
                f"{name}: tensor {key[:120]!r} starts at byte {begin}, expected {position}: overlap or "
                "hole; do not load it"
            )
        position = end
    if position > data_bytes:
        raise BadSafetensors(
            f"{name} is cut off: its tensors need {position} bytes of data and {data_bytes} are there; "
            "download it again"
        )
    if position < data_bytes:
        raise BadSafetensors(
            f"{name} has {data_bytes - position} bytes that belong to no tensor: damaged, or not what "
            "it says it is"
        )
