"""The standard files of this process: open, whatever the caller closed."""

from __future__ import annotations

import os
import sys
from typing import TextIO

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


def flushed() -> OSError | None:
    """Writes out what stdout still holds. An error leaves nothing that would fail again when the interpreter ends."""
    try:
        sys.stdout.flush()
    except OSError as error:
        forget(sys.stdout)
        return error
    return None


def complain(line: str) -> None:
    """A line on stderr. Where that cannot be written, nobody can be told, and the exit code stays what it is: what is
    left in a stream would fail again when the interpreter ends, which then ends with 120."""
    try:
        print(line, file=sys.stderr, flush=True)  # noqa: T201
    except OSError:
        forget(sys.stderr)


def forget(stream: TextIO) -> None:
    """What the stream still holds goes nowhere."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        stream.flush()
    except (OSError, ValueError):
        return
