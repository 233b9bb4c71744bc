"""Step 6 for a guest: does the container exist, is it ours, is it configured as wanted, does it run. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from checks.snapshot import CouldNotLook, Snapshot
from provision.guest.plain import Container, lxc_plan
from provision.guest.proxmox.plan import proxmox_plan
from provision.host import view
from provision.plan import RECORD_ANEW, Item, Plan, Refusal, lacking_in_record
from provision.spec import Guest, Machine

__all__ = ["Container", "container_plan"]


def container_plan(machine: Machine, guest: Guest, snapshot: Snapshot, metal: Sequence[Item] = ()) -> Plan:
    """What step 6 has to do for this guest on its host. ``metal`` are the items of steps 2-5 that come before: what
    depends on them is planned, and decided when they are done."""
    where = f"machine.guests[{machine.guests.index(guest)}]"
    decide = proxmox_plan if guest.backend == "pct" else lxc_plan
    try:
        state = view.guest_state(snapshot, guest)
        return decide(machine, guest, snapshot, state, where, metal)
    except CouldNotLook as error:
        refusal = Refusal(
            where,
            str(error),
            "a container in an unknown state is never taken for absent",
            RECORD_ANEW
            if lacking_in_record(error)
            else f"look at it: {'pct status' if guest.backend == 'pct' else 'lxc-info -n'} {guest.id}",
        )
        return Plan(machine.name, (), (refusal,))
