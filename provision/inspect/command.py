"""The command ``provision inspect``. Heavy imports happen where they are used."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from checks.errors import BadInput
from checks.judged import AllAtOnce
from provision import given

EPILOG = """
\b
Examples:
  provision inspect kpro5                  the GPUs of the machines of inventories/kpro5.py
  provision inspect kpro5 --json           the same for a program
  provision inspect @local                 this machine; root@gpubox: one that ssh reaches
  provision inspect --sysroot /tmp/tree    a recorded tree, or any part of one

\b
Exit codes: 0 looked, 1 a machine or tree could not be looked at, 2 usage or bad inventory.
"""

_BOTH = (
    "{} is a host and --sysroot a recorded machine, and one of them is looked at: leave one out, or give the inventory "
    "that belongs to the recorded machine"
)


def _is_host(word: str) -> bool:
    return "@" in word and "/" not in word


def _refuse(asked: given.Given) -> None:
    word, live = asked["inventory"], asked["sysroot"] is None
    if word is not None and not live and _is_host(word):
        raise BadInput(_BOTH.format(word))
    if word is not None and not (live and _is_host(word)):
        given.refuse(lambda: given.an_inventory(asked, files="none", names=live))


@click.command(cls=AllAtOnce, epilog=EPILOG, also=_refuse)
@click.argument("inventory", required=False)
@click.option(
    "--limit", multiple=True, metavar="NAME", help="Only these machines, guests or groups; wildcards count."
)
@click.option(
    "--sysroot",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Look at a recorded machine in this folder; nothing is connected to.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema provision/1) on stdout.")
def inspect(inventory: str | None, limit: tuple[str, ...], sysroot: Path | None, as_json: bool) -> None:
    """Shows what holds each GPU, who uses it, how it can be released, and what fits it. Changes nothing.

    INVENTORY is a file, or a bare word for inventories/<word>.py; or @local, or user@host[:port] of ssh, for a machine
    that no inventory describes. With --sysroot it can be left out.
    """
    if inventory is None and sysroot is None:
        raise click.UsageError("give an inventory, or --sysroot with a recorded tree")
    if inventory is None and limit:
        raise click.UsageError("--limit selects from an inventory: give one")
    if inventory is not None and sysroot is not None and _is_host(inventory):
        raise click.UsageError(_BOTH.format(inventory))
    if sysroot is not None:
        from provision.inspect import recorded

        sys.exit(recorded.inspect(inventory, limit, sysroot, as_json))
    import importlib

    # Brings gevent's patches, before anything else of pyinfra is imported.
    importlib.import_module("pyinfra_cli")
    from provision.inspect import live

    assert inventory is not None
    sys.exit(live.inspect(inventory, limit, as_json))


RECORD_EPILOG = """
\b
Examples:
  provision record root@gpubox /tmp/gpubox     a machine that ssh reaches
  provision record kpro5 /tmp/kpro5            the machine of inventories/kpro5.py, its guests too
  provision record @local /tmp/here            this machine

\b
Exit codes: 0 recorded, 1 the machine could not be looked at or the folder not be written, 2 usage.
"""


def _record_refused(asked: given.Given) -> None:
    from provision.inspect.record import meant
    from provision.inspect.recording import free

    host, folder = asked["host"], asked["folder"]
    questions = [lambda: free(folder)] if folder else []
    questions += [lambda: meant(host, asked["limit"])] if host else []
    given.refuse(*questions)


@click.command(cls=AllAtOnce, epilog=RECORD_EPILOG, also=_record_refused)
@click.argument("host")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--limit", multiple=True, metavar="NAME", help="Of an inventory with several machines: which one."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema provision/1) on stdout.")
def record(host: str, folder: Path, limit: tuple[str, ...], as_json: bool) -> None:
    """Copies what a plan and an inspection look at into FOLDER, for --sysroot, secrets removed. Changes nothing.

    HOST is the name of an inventory, [user@]host[:port] for ssh, or @local. FOLDER must not be there, or be empty.
    """
    import importlib

    importlib.import_module("pyinfra_cli")
    from provision.inspect import record as recorder

    sys.exit(recorder.record(host, folder, limit, as_json))
