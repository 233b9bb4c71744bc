"""Which containers are kpro's own: those that it made for this very guest, by the mark in their configuration. Pure."""

from __future__ import annotations

from checks.snapshot import CouldNotLook, Snapshot
from provision.spec import Guest, Machine


def mark(machine: Machine, guest: Guest) -> str:
    """The first line of a container's configuration that kpro wrote."""
    return f"# Written by kpro for {machine.name}/{guest.name}."


def made_here(machine: Machine, guest: Guest, snapshot: Snapshot) -> bool:
    """Did kpro make it? What cannot be read was made by somebody else. A container of Proxmox is its operator's."""
    if guest.backend != "lxc":
        return False
    try:
        code, config = snapshot.command(f"lxc-config-{guest.id}")
    except CouldNotLook:
        return False
    return code == 0 and config.startswith(mark(machine, guest))


def names(machine: Machine, snapshot: Snapshot) -> frozenset[str]:
    """The ids of this machine's containers that kpro made."""
    return frozenset(str(guest.id) for guest in machine.guests if made_here(machine, guest, snapshot))
