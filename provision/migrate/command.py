"""The command line of ``provision migrate``."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

import click

from checks.asking import all_of
from checks.errors import BadInput
from checks.judged import AllAtOnce, Several
from provision.given import Given, refuse

if TYPE_CHECKING:
    from provision.migrate.asked import Asked

EPILOG = """
\b
Examples:
  provision migrate kpro6 kpro5 --dry-run     what would be done, and everything that speaks against it
  provision migrate kpro6 kpro5               shows that, asks, does it
  provision migrate kpro6 kpro5 --resume      goes on where it was cut, from any controller
  provision migrate kpro6 kpro5 --rollback    the source serves again, the target is cleaned
  provision migrate kpro6 kpro5 --finalize    gives the source up
  provision migrate kpro6 kpro5 --cold --models-from /mnt/backup     the source is dead, its models are on a disk

\b
Exit codes: 0 done, 1 error (a red step from the drain on has been taken back), 2 usage, bad inventory, or the
question was answered with no, 3 refused (nothing touched), 4 locked, or another migration of the service is
open, 130 interrupted, 143 and 129 the same by SIGTERM and SIGHUP.
"""


_WAYS = ("resume", "rollback", "finalize", "dry_run")


def _asked(given: Given) -> Asked:
    from provision.migrate.asked import Asked

    chosen = [name.replace("_", "-") for name in _WAYS if given[name]]
    rest = {name: value for name, value in given.items() if name not in _WAYS}
    return Asked(**rest, way=chosen[0] if chosen else "begin")


def _contradictions(given: Given) -> list[str]:
    chosen = [name.replace("_", "-") for name in _WAYS if given[name]]
    models_from = given["models_from"] or ""
    wrong = []
    if len(chosen) > 1:
        wrong.append(f"--{' and --'.join(chosen)}: one at a time")
    if given["remove_models"] and not given["finalize"]:
        wrong.append("--remove-models goes with --finalize: before that they are the way back")
    if given["source_is_off"] and not given["cold"]:
        wrong.append("--source-is-off goes with --cold: a source that is there is asked")
    if models_from and not (given["cold"] and models_from.startswith("/")):
        wrong.append("--models-from takes an absolute path on the target's machine, and goes with --cold")
    return wrong


def _refuse(given: Given) -> None:
    """Raises BadInput with the contradictions, and what is wrong with the two inventories."""
    from provision.migrate.asked import both_ends

    with all_of() as ask:
        for text in _contradictions(given):
            ask.refuse(True, text)
        if given["source"] and given["target"]:
            ask(refuse, lambda: both_ends(_asked(given)))


@click.command(cls=AllAtOnce, epilog=EPILOG, also=_refuse)
@click.argument("source")
@click.argument("target")
@click.option("--service", metavar="NAME", help="Which service, where both inventories name several.")
@click.option(
    "--resume", is_flag=True, help="Go on with the open migration: at the first step that is not done."
)
@click.option(
    "--rollback", is_flag=True, help="The source serves again, first of all; then the target is cleaned."
)
@click.option(
    "--finalize",
    is_flag=True,
    help="Give the source up: its unit, environment and key go; there is no way back.",
)
@click.option("--remove-models", is_flag=True, help="With --finalize: the source's model files go too.")
@click.option("--dry-run", is_flag=True, help="Preflight, plan and steps; changes nothing.")
@click.option("--cold", is_flag=True, help="The source is dead: its inventory says what served there.")
@click.option(
    "--source-is-off",
    is_flag=True,
    help="With --cold, your word: the source's machine is switched off and cannot come back by itself. It stands for "
    "what cannot be asked (a name that is not resolved), and never overrides something that answers.",
)
@click.option(
    "--models-from",
    metavar="FOLDER",
    default="",
    help="With --cold: a folder of the target's machine that has the model folders, such as a mounted backup.",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option(
    "--reboot", is_flag=True, help="The target may reboot, also where its inventory does not allow it."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema provision/1) on stdout.")
def migrate(**given: Any) -> None:
    """Moves a live service to another machine: copied while it serves, proven there, and only then switched to.

    SOURCE and TARGET are inventories that both name the service: a file, or a bare word for inventories/<word>.py. The
    target is brought up, and its answers and speed are held against the source's, before a single request leaves the
    source. A step that fails before the drain leaves the source serving; one that fails after it is taken back by
    itself. The source's files are never changed, so until --finalize there is a way back in seconds.
    """
    if _contradictions(given):
        try:
            _refuse(given)
        except BadInput as error:
            raise Several(str(error).splitlines(), click.get_current_context()) from None
    importlib.import_module("pyinfra_cli")
    from provision.migrate import run

    sys.exit(run.migrate(_asked(given)))
