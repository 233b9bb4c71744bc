"""A question to the operator that an interrupt ends, as it ends everything else of a run."""

from __future__ import annotations

import sys

import click
import gevent.select


def yes(question: str) -> bool:
    """Asks on stderr and reads a line; anything but y or yes is no, and so is the end of the input.

    It waits in gevent's loop: there the interrupt of a run arrives, and a plain read would keep it out.
    """
    click.echo(f"{question} [y/N]: ", err=True, nl=False)
    gevent.select.select([sys.stdin], [], [])
    return sys.stdin.readline().strip().lower() in ("y", "yes")
