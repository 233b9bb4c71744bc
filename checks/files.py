"""Writing a file so that nobody ever reads half of it."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from checks.errors import BadInput


def write_whole(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Temp file beside the target, fsync, rename. What is no regular file (a pipe, /dev/null) is written to.

    Raises BadInput when the folder is not there or not writable; the target is then as it was.
    """
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(data)
            return
        _replace(path, data, mode)
    except OSError as error:
        raise BadInput(
            f"cannot write {path}: {error.strerror or error}; name a file in a folder that is there"
        ) from None


def _replace(path: Path, data: bytes, mode: int) -> None:
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            os.fchmod(file.fileno(), mode)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
