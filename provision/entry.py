"""The way into every command: an output that cannot be written ends in one line and exit code 1."""

from __future__ import annotations

import shlex
import signal
import sys
from typing import Any

import click

from checks import crash, standard
from checks.ending import INTERRUPTED
from checks.judged import AllAtOnce

WITHOUT_LAST_WORDS = ("build-driver", "demo")
"""Commands that begin things of this machine without ``provision.run.ending``."""


class Entry(click.Group):
    """A full disk, or a device that takes nothing, is told here; a reader that had enough is no error."""

    command_class = AllAtOnce

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            if _began(ctx.invoked_subcommand):
                raise
            # A second one, pressed out of impatience, is no news.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            words = shlex.join([str(ctx.find_root().info_name), *sys.argv[1:]])
            click.echo(
                f"\ninterrupted before anything began: nothing was changed by it; what was open is still open. "
                f"Next: {words}",
                err=True,
            )
            sys.exit(INTERRUPTED)

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
            standard.complain(f"error: {what}")
            standard.forget()
            sys.exit(1)


def _began(command: str | None) -> bool:
    """Has the command come further than its imports, which take seconds? From there on it has last words itself."""
    ending = sys.modules.get("provision.run.ending")
    return command in WITHOUT_LAST_WORDS or bool(ending is not None and getattr(ending, "listened", False))
