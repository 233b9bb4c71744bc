"""The way into every command: an output that cannot be written ends in one line and exit code 1."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any

import click

from checks import crash
from checks.judged import AllAtOnce


class Entry(click.Group):
    """click ends a broken pipe by itself; a full disk, or a device that takes nothing, is told here."""

    command_class = AllAtOnce

    def main(self, *args: Any, **kwargs: Any) -> Any:
        crash.tell()
        try:
            try:
                return super().main(*args, **kwargs)
            finally:
                sys.stdout.flush()
        except BrokenPipeError:
            _closed(sys.stdout)
            sys.exit(1)
        except OSError as error:
            what = (
                str(error) if error.filename else f"the output cannot be written: {error.strerror or error}"
            )
            with contextlib.suppress(OSError):
                click.echo(f"error: {what}", err=True)
                sys.stderr.flush()
            _closed(sys.stdout)
            sys.exit(1)


def _closed(stream: Any) -> None:
    """What is left in the buffer would be written once more at the end, and fail again."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
