"""Writing a file so that nobody ever reads half of it."""

from __future__ import annotations

import errno
import os
import tempfile
from contextlib import suppress
from pathlib import Path

from checks.errors import BadInput


class NotWritten(BadInput):
    """The file is not there, or as it was before; says why and what to do."""


_ADVICE = {
    errno.ENOSPC: "free some space there, or name a file on another disk",
    errno.EDQUOT: "the quota there is used up; free some space, or name a file on another disk",
    errno.EROFS: "name a file on a disk that is not read-only",
    errno.EACCES: "name a file in a folder of your own",
    errno.EPERM: "name a file in a folder of your own",
    errno.ENOENT: "name a file in a folder that is there",
    errno.ENOTDIR: "name a file in a folder that is there",
}


def write_whole(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Temp file beside the target, fsync, rename. What is no regular file (a pipe, /dev/null) is written to.

    Raises NotWritten (a BadInput) when the folder is not there or not writable, or the disk is full; the target is
    then as it was.
    """
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(data)
            return
        _replace(path, data, mode)
    except OSError as error:
        advice = _ADVICE.get(error.errno or 0, "name another file")
        raise NotWritten(f"cannot write {path}: {error.strerror or error}; {advice}") from None


def can_be_written(path: Path) -> None:
    """Raises NotWritten where ``write_whole`` could not even begin: tries it with an empty file, which goes again."""
    try:
        if path.exists() and not path.is_file():
            return
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        os.close(handle)
        Path(name).unlink()
    except OSError as error:
        advice = _ADVICE.get(error.errno or 0, "name another file")
        raise NotWritten(f"{error.strerror or error}; {advice}") from None


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
