"""A log that is too large to be read whole: its lines about NVIDIA's driver, read as a stream in bounded memory."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from checks.errors import BadInput
from checks.gpus import kernlog, texts
from checks.record import SIZE_LIMIT, Record

STREAM_LIMIT = 256 << 20
"""Bytes of a log, unpacked, that are read at most."""
_LINE = 1 << 16
_MEANWHILE = 4000
"""Lines that are held before they are thinned out."""
_GZIP = b"\x1f\x8b"


def is_large(path: Path, head: bytes) -> bool:
    """``head``: the first bytes of the file, one more than the limit where it has so many."""
    if not head.startswith(_GZIP):
        return len(head) > SIZE_LIMIT
    try:
        with gzip.open(path) as stream:
            size = 0
            while size <= SIZE_LIMIT and (piece := stream.read(1 << 20)):
                size += len(piece)
    except (OSError, EOFError, zlib.error):
        return False  # damaged: texts.plain has the words
    return size > SIZE_LIMIT


def read(path: Path) -> Record:
    """The log's lines about NVIDIA's driver as a record. Raises BadInput when there are none, or the file is no log."""
    with path.open("rb") as file:
        packed = file.read(2) == _GZIP
    if not packed and path.stat().st_size > STREAM_LIMIT:
        raise BadInput(_too_much(path))
    try:
        if packed:
            with gzip.open(path) as stream:
                kept = _thinned(_lines(stream, path))
        else:
            with path.open("rb") as plain:
                kept = _thinned(_lines(plain, path))
    except (OSError, EOFError, zlib.error) as error:
        raise BadInput(f"cannot read {path}: {str(error)[:80]}") from None
    if not kept:
        raise BadInput(
            f"{path} is larger than {SIZE_LIMIT >> 20} MiB, and no line of it is one of NVIDIA's driver;"
            f" {_advice(path)}"
        )
    return texts.read("\n".join(kept).encode(), str(path))


def _advice(path: Path) -> str:
    grep = "zgrep" if path.suffix == ".gz" else "grep"
    return f"of a log, give the lines that matter: {grep} -a -e NVRM -e SXid -e AER {path} > nvidia.log"


def _too_much(path: Path) -> str:
    return f"{path} holds more than {STREAM_LIMIT >> 20} MiB; {_advice(path)}"


def _thinned(lines: Iterator[str]) -> list[str]:
    """The newest lines, and of the older ones the last of each event: a storm must not push out another error."""
    kept: list[str] = []
    for line in lines:
        if kernlog.concerns(line):
            kept.append(line)
            if len(kept) >= _MEANWHILE:
                kept = kernlog.few(kept)
    return kept


def _lines(stream: IO[bytes] | gzip.GzipFile, path: Path) -> Iterator[str]:
    size = 0
    while raw := stream.readline(_LINE):
        if not size and raw.lstrip().startswith(b"{"):
            raise BadInput(
                f"{path} is larger than {SIZE_LIMIT >> 20} MiB: no record of provcheck is that large"
            )
        size += len(raw)
        if size > STREAM_LIMIT:
            raise BadInput(_too_much(path))
        yield raw.decode(errors="replace").replace("\0", "").rstrip("\r\n")
