"""The standard files of this process: open, whatever the caller closed, and no error where nobody reads any more."""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import Any

CLOSED: set[str] = set()
"""Names of those that the caller had closed: what is written there is lost, and no error tells of it."""


def open_all() -> None:
    """Where the caller closed stdin, stdout or stderr, /dev/null: no file or pipe of ours may get their numbers."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number: this one
            CLOSED.add(name)
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))


class _Heard(io.FileIO):
    """A reader that had enough (``| head``) is no error: what comes after is for nobody, and the command goes on to its
    end and its own exit code. ``lost``: nor is any other error here, since there is nobody left to tell of it."""

    lost = False

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if self.lost or error.errno == errno.EPIPE:
                return len(memoryview(data).cast("B"))
            raise


def unbroken() -> None:
    """From here on no write to stdout fails for a reader that is gone, and none to stderr at all.

    Of the files alone that this process was started with: what was put in their place is left.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if not isinstance(stream, io.TextIOWrapper) or stream is not getattr(sys, f"__{name}__"):
            continue
        raw = _Heard(stream.fileno(), "w", closefd=False)
        raw.lost = name == "stderr"
        made = io.TextIOWrapper(
            io.BufferedWriter(raw),
            encoding=stream.encoding,
            errors=stream.errors,
            line_buffering=stream.line_buffering,
            write_through=stream.write_through,
        )
        setattr(sys, name, made)


def flushed() -> OSError | None:
    """Writes out what stdout still holds. An error leaves nothing that would fail again when the interpreter ends."""
    try:
        sys.stdout.flush()
    except OSError as error:
        forget()
        return error
    return None


def complain(line: str) -> None:
    """A line on stderr, at once."""
    print(line, file=sys.stderr, flush=True)  # noqa: T201


def forget() -> None:
    """What stdout still holds goes nowhere."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.stdout.flush()
    except (OSError, ValueError):
        return
