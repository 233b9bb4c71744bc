"""A question to the operator that an interrupt ends, as it ends everything else of a run."""

from __future__ import annotations

import sys

import click
import gevent.select

from provision.run import ending


def yes(question: str) -> bool:
    """Asks on stderr and reads a line: y or yes; n, no, nothing and the end of the input are no. Anything else is asked
    again. Raises ``ending.Ended`` when it is interrupted: nothing was begun.

    It waits in gevent's loop: there the interrupt of a run arrives, and a plain read would keep it out.
    """
    with ending.asking():
        while True:
            click.echo(f"{question} [y/N]: ", err=True, nl=False)
            gevent.select.select([sys.stdin], [], [])
            line = sys.stdin.readline()
            word = line.strip().lower()
            if word in ("y", "yes"):
                return True
            if word in ("", "n", "no"):
                if not line:
                    click.echo(err=True)
                return False
            click.echo("y is yes; n, or Enter alone, is no", err=True)
