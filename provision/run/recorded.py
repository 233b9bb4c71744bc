"""A plan against a recorded machine: the same script, the same decisions, no connection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from checks.snapshot import CouldNotLook
from provision.host import view
from provision.host.observe import observe_tree
from provision.inventory import Inventory
from provision.plan import MAKE_READABLE, RECORD_ANEW, Plan
from provision.planner import Observed, guest_requests, plan_machine, requests, restrict
from provision.run.wanted import wanted_for


def plan_recorded(
    inventory: Inventory, limit: Sequence[str], phases: Sequence[str], root: Path
) -> list[Plan]:
    """Plans every selected machine against the tree; a guest's own tree lies in ``.kpro/guests/<name>``.

    A running guest without a recorded tree is treated as one that cannot be entered: all that a bare one needs is
    listed. Raises RunError when the tree cannot be read.
    """
    selection = inventory.selected(limit)
    plans = []
    for machine in selection.machines:
        wanted = wanted_for(machine)
        host = observe_tree(root, requests(machine))
        guests = {}
        for guest in machine.guests:
            inside = root / ".kpro" / "guests" / guest.name
            try:
                running = view.guest_state(host, guest) == "running"
            except CouldNotLook:
                running = False
            there = running and inside.is_dir()
            guests[guest.name] = (
                observe_tree(inside, guest_requests(machine, guest, wanted.services[guest.name]))
                if there
                else None
            )
        plan = plan_machine(machine, wanted, Observed(host, guests))
        plans.append(_of_record(restrict(plan, phases, selection.host_names)))
    return plans


def _of_record(plan: Plan) -> Plan:
    """Nobody can make readable what a record lacks: the next step is another one than on a machine."""
    return replace(
        plan,
        refusals=tuple(
            replace(one, next_step=RECORD_ANEW) if one.next_step == MAKE_READABLE else one
            for one in plan.refusals
        ),
    )
