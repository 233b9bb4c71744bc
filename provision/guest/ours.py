"""Which containers kpro may stop, so that another driver can be loaded. Pure.

A plain container, when kpro made it for this very guest: the mark in its configuration says so. One of Proxmox VE, when
the inventory names its id as one to be managed, which is its operator's word; but not while Proxmox itself is at work
on it (``lock:``), nor a template. ``protection: 1`` keeps Proxmox from removing a container or its disks
(PVE::AbstractConfig, check_protection), and says nothing against a stop.
"""

from __future__ import annotations

from checks.snapshot import CouldNotLook, Snapshot
from provision.guest.proxmox.grammar import parse
from provision.spec import Guest, Machine


def mark(machine: Machine, guest: Guest) -> str:
    """The first line of a container's configuration that kpro wrote."""
    return f"# Written by kpro for {machine.name}/{guest.name}."


def may_stop(machine: Machine, guest: Guest, snapshot: Snapshot) -> bool:
    """A guest without GPUs is never in the way. What cannot be read is somebody else's."""
    if not guest.managed or not guest.gpus:
        return False
    try:
        if guest.backend == "pct":
            text = snapshot.text(f"/etc/pve/lxc/{guest.id}.conf")
            return text is not None and _is_free(text)
        code, config = snapshot.command(f"lxc-config-{guest.id}")
    except CouldNotLook:
        return False
    return code == 0 and config.startswith(mark(machine, guest))


def _is_free(text: str) -> bool:
    conf = parse(text)
    return conf.value("lock") is None and not conf.is_true("template")


def names(machine: Machine, snapshot: Snapshot) -> frozenset[str]:
    """The ids of the containers of this machine that kpro may stop."""
    return frozenset(str(guest.id) for guest in machine.guests if may_stop(machine, guest, snapshot))
