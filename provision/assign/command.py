"""``provision assign``: its words. What it does is in provision.run.assign."""

from __future__ import annotations

import importlib
import sys

import click

from checks.judged import AllAtOnce
from provision import given

_ANY = "00:00.0"
"""In the place of an address that was not given."""


def _refuse(asked: given.Given) -> None:
    run = importlib.import_module("provision.run.assign")
    given.refuse(
        lambda: run.which(asked["bdf"] or _ANY, asked["to"] or "vm", asked["vmid"]),
        lambda: given.an_inventory(asked),
    )


@click.command(cls=AllAtOnce, also=_refuse)
@click.argument("inventory")
@click.argument("bdf")
@click.argument("to", type=click.Choice(["vm", "lxc"]))
@click.option(
    "--vmid", metavar="N", help="With vm: add the GPU to this Proxmox virtual machine, which must be stopped."
)
@click.option(
    "--limit", multiple=True, metavar="MACHINE", help="The machine, where several have a GPU there."
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option(
    "--reboot", is_flag=True, help="Reboot where that is needed, also where the inventory does not allow it."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema provision/1) on stdout.")
def assign(
    inventory: str,
    bdf: str,
    to: str,
    vmid: str | None,
    limit: tuple[str, ...],
    yes: bool,
    reboot: bool,
    as_json: bool,
) -> None:
    """Hands the GPU at BDF over to virtual machines (vm), or back to the containers (lxc), while the machine runs.

    With vm the guests that have the GPU are stopped and rest, and it goes to vfio-pci for good; the machine records
    that, so that a later apply leaves it there. With lxc stopped virtual machines forget it and the guests serve
    again. Shows what would be done, asks, does it. The inventory file is not changed: the lines to change are printed.
    """
    importlib.import_module("pyinfra_cli")
    run = importlib.import_module("provision.run.assign")
    sys.exit(run.assign(run.Asked(inventory, bdf, to, vmid, limit, yes, reboot, as_json)))
