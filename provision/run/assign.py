"""``provision assign``: which machine is meant, the plan with the hand-over in it, the question, the chain.

Import it with gevent's patches in place (``provision.assign.command`` sees to that).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import click

from checks.bdf import Bdf
from provision import inventory as inventories
from provision.assign.handover import Handover, To
from provision.plan import PHASES, Plan
from provision.printable import printable, say_on_stderr
from provision.run import present, runner
from provision.run.commands import Answer, connected, finish, told
from provision.run.errors import EXIT_DONE, EXIT_REFUSED, EXIT_USAGE
from provision.run.together import together
from provision.spec import Machine


@dataclass(frozen=True)
class Asked:
    """What ``provision assign`` was asked for."""

    inventory: str
    bdf: str
    to: To
    vmid: str | None
    limit: tuple[str, ...]
    yes: bool
    reboot: bool
    as_json: bool


def assign(ask: Asked) -> int:
    """Exit code of ``provision assign``."""
    return finish(lambda: _assign(ask), "assign", ask.as_json)


def which(bdf: str, to: To, vmid: str | None) -> Bdf:
    """The GPU that is named. Raises ValueError and InventoryRefused for what is wrong with these."""
    return together(lambda: Bdf.parse(bdf), lambda: _check_vmid(to, vmid))[0]


def _check_vmid(to: To, vmid: str | None) -> None:
    if vmid is not None and to != "vm":
        raise ValueError("--vmid names who gets the GPU: it goes with vm, not with lxc")
    if vmid is not None and not re.fullmatch(r"[1-9]\d{2,8}", vmid):
        raise ValueError(f"--vmid {vmid}: a Proxmox vmid is a number from 100 to 999999999")


def _assign(ask: Asked) -> Answer:
    bdf, loaded = together(
        lambda: which(ask.bdf, ask.to, ask.vmid),
        lambda: inventories.load(ask.inventory, ask.limit),
    )
    machine = meant(loaded.selected(ask.limit).machines, bdf, ask.to)
    reason = f"assign {ask.inventory} {bdf.short} {ask.to}"
    with connected(loaded, [machine.name], PHASES, reason, ask.reboot) as run:
        run.session.handovers[machine.name] = Handover(bdf, ask.to, run.session.id, ask.vmid)
        plans: list[Plan] = run.plans()
        present.plans(plans, quiet=ask.as_json)
        lines = inventory_lines(machine, bdf, ask.to)
        document: dict[str, Any] = {
            "machines": [plan.as_dict() for plan in plans],
            "gpu": str(bdf),
            "to": ask.to,
            "inventory": lines,
        }
        if any(plan.refusals for plan in plans):
            run.session.ended = EXIT_REFUSED
            return Answer(EXIT_REFUSED, document)
        changes = sum(len(plan.items) for plan in plans)
        if not changes:
            present.in_sync(f"GPU {bdf} is with {'virtual machines' if ask.to == 'vm' else 'the containers'}")
            return Answer(EXIT_DONE, document | {"changed": []})
        if not ask.yes and not present.confirmed(changes, 1, None):
            run.session.ended = EXIT_USAGE
            return Answer(EXIT_USAGE, document)
        outcome = run.execute(runner.Progress(run.session, say_on_stderr))
    present.outcomes([outcome], proven=True)
    if outcome.exit_code == EXIT_DONE and not ask.as_json:
        for line in lines:
            click.echo(printable(line), err=True)
    return Answer(outcome.exit_code, document | told([outcome]))


def meant(machines: Sequence[Machine], bdf: Bdf, to: To) -> Machine:
    """The machine whose GPU is meant. Raises ValueError when that cannot be told, or it is not ours to hand over."""
    naming = [m for m in machines if bdf in {Bdf.parse(gpu.bdf) for gpu in m.gpus}]
    if len(naming) > 1 or (not naming and len(machines) > 1):
        names = ", ".join(machine.name for machine in naming or machines)
        which = "several machines name a GPU" if naming else "no machine names a GPU"
        raise ValueError(f"{which} at {bdf.short}: say which one with --limit ({names})")
    machine = naming[0] if naming else machines[0]
    if not machine.managed:
        raise ValueError(f"{machine.name} has managed=False: its GPUs are looked after by somebody else")
    if not naming:
        named = ", ".join(Bdf.parse(gpu.bdf).short for gpu in machine.gpus) or "none"
        why = (
            "what no container is to have is not taken from virtual machines"
            if to == "lxc"
            else "a GPU that it does not name is not kpro's to hand over"
        )
        then = f', and "{bdf.short}" to the guest that gets it' if to == "lxc" else ""
        raise ValueError(
            f"machine.gpus of {machine.name} does not name {bdf.short} (it names {named}): {why}. "
            f'Correct the address, or add Gpu(bdf="{bdf.short}", model=…) to it{then}'
        )
    return machine


def inventory_lines(machine: Machine, bdf: Bdf, to: To) -> list[str]:
    """What to change in the inventory file where it should say the same as the machine; nothing when it does."""
    named = any(Bdf.parse(gpu.bdf) == bdf for gpu in machine.gpus)
    if to == "lxc" or not named:
        return []
    lines = [
        f"the inventory still names {bdf.short}, so that assign … lxc can take it back. To give it up for good:"
    ]
    lines.append(f'  machine.gpus: take out Gpu(bdf="{bdf.short}", …)')
    for index, guest in enumerate(machine.guests):
        if bdf in {Bdf.parse(one) for one in guest.gpus}:
            rest = [one for one in guest.gpus if Bdf.parse(one) != bdf]
            lines.append(
                f"  machine.guests[{index}] ({guest.name}): gpus={rest}, and its services sized for that"
            )
    return lines
