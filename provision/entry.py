"""The way into every command: an output that cannot be written ends in one line and exit code 1."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import click

from checks import crash, standard
from checks.judged import AllAtOnce


class Entry(click.Group):
    """A full disk, or a device that takes nothing, is told here; a reader that had enough is no error."""

    command_class = AllAtOnce

    def main(self, *args: Any, **kwargs: Any) -> Any:
        # Before anything is opened: no journal or lock may get the number of a file that the caller had closed.
        standard.open_all()
        standard.unbroken()
        crash.tell()
        try:
            try:
                return super().main(*args, **kwargs)
            finally:
                sys.stdout.flush()
        except OSError as error:
            what = (
                str(error) if error.filename else f"the output cannot be written: {error.strerror or error}"
            )
            with contextlib.suppress(OSError):
                click.echo(f"error: {what}", err=True)
                sys.stderr.flush()
            standard.forget(sys.stdout)
            sys.exit(1)
