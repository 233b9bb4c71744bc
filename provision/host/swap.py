"""An exchange of the driver while the machine runs: which guests are stopped for it, and what follows. Pure.

Only guests that kpro may stop are stopped (provision.guest.ours); whoever else uses the driver is a reason to leave it
to a reboot, and then there is no ``driver.load`` here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from checks.snapshot import CouldNotLook, Snapshot
from provision.guest import ours, userspace, userspace_own
from provision.guest.proxmox.grammar import parse
from provision.host import view
from provision.host.moves import PCT, Asleep, Load
from provision.plan import Item, Plan, Refusal, Step, make_seen
from provision.spec import Guest, Machine

STOP = "guests.stop"
UNDER_WAY = "/var/lib/kpro/exchange"
"""The runs that stopped guests for another driver, one a line, until what serves in them was seen generating again."""

REQUESTS = [f"file:{UNDER_WAY}"]


def unfinished(snapshot: Snapshot) -> tuple[str, ...]:
    """The runs that began an exchange and were cut, newest first."""
    try:
        text = snapshot.text(UNDER_WAY) or ""
    except CouldNotLook:
        # A machine that is only compared was not asked; one whose root kpro is not is refused anyway.
        return ()
    return tuple(dict.fromkeys(reversed(text.split())))


def swapped(items: Sequence[Item]) -> tuple[str, str] | None:
    """The driver that one of these items takes out, None when none does."""
    loads = [item.payload for item in items if item.kind == "driver.load"]
    return next((load.instead for load in loads if isinstance(load, Load) and load.instead), None)


def stops_plan(machine: Machine, snapshot: Snapshot, items: Sequence[Item]) -> Plan:
    """``guests.stop`` for every guest with GPUs that runs, where ``items`` exchange the driver; nothing otherwise."""
    old = swapped(items)
    if old is None:
        return Plan(machine.name)
    found = []
    try:
        for guest in machine.guests:
            if ours.may_stop(machine, guest, snapshot) and view.guest_state(snapshot, guest) == "running":
                found.append(_stop(machine, guest, snapshot, old))
    except CouldNotLook as error:
        refusal = Refusal(
            f"machine {machine.name}",
            str(error),
            "a guest in an unknown state may use the driver that is to go",
            make_seen(error),
        )
        return Plan(machine.name, (), (refusal,))
    return Plan(machine.name, tuple(found))


def _stop(machine: Machine, guest: Guest, snapshot: Snapshot, old: tuple[str, str]) -> Item:
    assert machine.driver is not None
    units = tuple(service.unit for service in guest.services)
    down = (
        f"{', '.join(units)} {'is' if len(units) == 1 else 'are'} down"
        if units
        else "nothing of kpro's serves in it"
    )
    text = (
        f"stop container {guest.id}: {down} while driver {old[0]} ({old[1]}) gives way to {machine.driver.version} "
        f"({machine.driver.flavour}), until it is started again and its gate is green"
    )
    if guest.backend == "pct":
        text += _theirs(machine, guest)
        move = Asleep(guest.id, PCT, units, _down_seconds(snapshot, guest))
    else:
        _, path = snapshot.command("lxc-path")
        move = Asleep(guest.id, f"{path.strip()}/{guest.id}", units)
    return Item(Step.DRIVER, STOP, machine.host_name, guest.name, text, move)


def _theirs(machine: Machine, guest: Guest) -> str:
    """What else the operator of a Proxmox container has to know before it is stopped."""
    text = "; all else that runs in it is down as long"
    if userspace.wants(machine, guest) or userspace_own.wants(machine, guest):
        return text
    return (
        f"{text}; its NVIDIA libraries are its operator's, and where they are not those of the new driver its gate "
        "is red and the old one comes back (userspace='packages' or 'run' has kpro bring them)"
    )


def _down_seconds(snapshot: Snapshot, guest: Guest) -> int | None:
    """How long its operator gives it to shut down: ``startup: down=SECONDS``, as at a shutdown of the node."""
    startup = parse(snapshot.text(f"/etc/pve/lxc/{guest.id}.conf") or "").value("startup")
    found = re.search(r"(?:^|,)\s*down=(\d+)\s*(?:,|$)", startup or "", re.ASCII)
    return int(found[1]) if found and int(found[1]) else None
