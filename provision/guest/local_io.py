"""The controller's end of a transfer: lines for pyinfra's output, files and file objects for its puts and
gets."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryFile
from typing import Any, BinaryIO, cast

from pyinfra.api.output import echo, format_text
from pyinfra.connectors.util import OutputLine


class Lines:
    """Cuts output into pyinfra's lines as it comes; what is no UTF-8 becomes ``\\xNN`` instead of an
    exception."""

    def __init__(self, buffer_name: str, lines: list[OutputLine], print_prefix: str | None) -> None:
        self._name = buffer_name
        self._lines = lines
        self._prefix = print_prefix
        self._rest = b""

    def write(self, data: bytes) -> None:
        *whole, self._rest = (self._rest + data).split(b"\n")
        for line in whole:
            self._add(line)

    def close(self) -> None:
        if self._rest:
            self._add(self._rest)
        self._rest = b""

    def _add(self, raw: bytes) -> None:
        line = raw.decode("utf-8", "backslashreplace")
        self._lines.append(OutputLine(self._name, line))
        if self._prefix is not None:
            shown = format_text(line, "red") if self._name == "stderr" else line
            echo(f"{self._prefix}{shown}", err=True)


def stdin_bytes(given: str | Iterable[str] | Any) -> bytes:
    """pyinfra's ``_stdin``: text or lines of text, each of which ends with a newline."""
    if not given:
        return b""
    lines = [given] if isinstance(given, str) else list(given)
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines).encode()


@contextmanager
def seekable(filename_or_io: Any) -> Iterator[BinaryIO]:
    """What pyinfra was asked to put, as bytes whose number is known, from their beginning."""
    if isinstance(filename_or_io, str | os.PathLike):
        with Path(filename_or_io).open("rb") as file:
            yield file
        return
    source = filename_or_io
    if hasattr(source, "seek") and source.seekable():
        source.seek(0)
    if isinstance(source.read(0), str):
        yield BytesIO(source.read().encode())
    elif source.seekable():
        yield cast(BinaryIO, source)
    else:
        with TemporaryFile() as spooled:
            shutil.copyfileobj(source, spooled)
            spooled.seek(0)
            yield cast(BinaryIO, spooled)


@contextmanager
def sink_for(filename_or_io: Any) -> Iterator[BinaryIO]:
    """Where pyinfra wants a file that it gets: it appears there whole, or not at all."""
    if hasattr(filename_or_io, "write"):
        with TemporaryFile() as arrived:
            yield cast(BinaryIO, arrived)
            arrived.seek(0)
            shutil.copyfileobj(arrived, filename_or_io)
        return
    target = Path(filename_or_io)
    with NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", delete=False) as file:
        try:
            yield cast(BinaryIO, file)
            file.flush()
            os.fsync(file.fileno())
            Path(file.name).replace(target)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise
