"""The command ``provision status``. Heavy imports happen where they are used."""

from __future__ import annotations

import importlib
import sys

import click

from checks.judged import AllAtOnce
from provision import given

EPILOG = """
\b
Examples:
  provision status kpro5                   machines, guests, services; what is pending, changed, locked
  provision status fleet --limit 'gpu*'    some of them
  provision status fleet --json            the same for a program

\b
Exit codes: 0 looked, whatever was seen (the word is in "state"), 1 a machine could not be looked at,
2 usage or bad inventory.
"""


@click.command(cls=AllAtOnce, epilog=EPILOG, also=given.a_look)
@click.argument("inventory")
@click.option(
    "--limit", multiple=True, metavar="NAME", help="Only these machines, guests or groups; wildcards count."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema provision/1) on stdout.")
def status(inventory: str, limit: tuple[str, ...], as_json: bool) -> None:
    """Shows where machines, guests and services stand: in sync or not, last run, drift, reboot, lock. Changes nothing.

    INVENTORY is a file, or a bare word for inventories/<word>.py.
    """
    # Brings gevent's patches, before anything else of pyinfra is imported.
    importlib.import_module("pyinfra_cli")
    from provision.status import live

    sys.exit(live.status(inventory, limit, as_json))
