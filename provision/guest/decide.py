"""Step 6 for a guest: does the container exist, is it ours, is it configured as wanted, does it run. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from checks.bdf import Bdf
from checks.snapshot import CouldNotLook, Snapshot
from provision.guest.plain import Container, lxc_plan, reboots
from provision.host import view
from provision.plan import Item, Plan, Refusal, Step
from provision.spec import Guest, Machine

__all__ = ["Container", "container_plan"]


def container_plan(machine: Machine, guest: Guest, snapshot: Snapshot, metal: Sequence[Item] = ()) -> Plan:
    """What step 6 has to do for this guest on its host. ``metal`` are the items of steps 2-5 that come before: what
    depends on them is planned, and decided when they are done."""
    where = f"machine.guests[{machine.guests.index(guest)}]"
    try:
        state = view.guest_state(snapshot, guest)
        if guest.backend == "pct":
            return _proxmox(machine, guest, snapshot, state, where, metal)
        return lxc_plan(machine, guest, snapshot, state, where, metal)
    except CouldNotLook as error:
        refusal = Refusal(
            where,
            str(error),
            "a container in an unknown state is never taken for absent",
            f"look at it: {'pct status' if guest.backend == 'pct' else 'lxc-info -n'} {guest.id}",
        )
        return Plan(machine.name, (), (refusal,))


def _proxmox(
    machine: Machine, guest: Guest, snapshot: Snapshot, state: str, where: str, metal: Sequence[Item]
) -> Plan:
    """A Proxmox container is started; what its configuration lacks is named with the command that adds it."""
    if state != "absent":
        start = Item(
            Step.CONTAINER,
            "container.start",
            machine.host_name,
            guest.name,
            f"start container {guest.id}",
            guest,
        )
        items = (start,) if state == "stopped" or reboots(metal) else ()
        return Plan(machine.name, items, tuple(_proxmox_lacks(guest, snapshot, where, bool(metal))))
    refusal = Refusal(
        where,
        f"Proxmox container {guest.id} does not exist",
        "Proxmox containers are configured here, and made by the operator, who knows storage and network",
        f"pct create {guest.id} <template> --hostname {guest.name} --unprivileged {int(guest.unprivileged)} "
        "--features nesting=1 --rootfs <storage>:64 --net0 name=eth0,bridge=vmbr0,ip=dhcp",
    )
    return Plan(machine.name, (), (refusal,))


def _proxmox_lacks(guest: Guest, snapshot: Snapshot, where: str, early: bool) -> list[Refusal]:
    """GPUs and folders that the current section of the container's file does not name (snapshots come after the
    first ``[``). While the minors are not known, there must be as many nodes as GPUs: the driver counts from 0."""
    path = f"/etc/pve/lxc/{guest.id}.conf"
    current = (snapshot.text(path) or "").split("\n[")[0]
    minors = view.minors(snapshot)
    nodes = [f"/dev/nvidia{minors[Bdf.parse(bdf)]}" for bdf in guest.gpus if Bdf.parse(bdf) in minors]
    if early:
        there = re.findall(r"/dev/nvidia\d+(?![\w-])", current)
        nodes = (
            [f"/dev/nvidia{number}" for number in range(len(guest.gpus))]
            if len(set(there)) < len(guest.gpus)
            else []
        )
    nodes += ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"] if guest.gpus else []
    missing = [node for node in nodes if not re.search(rf"{node}(?![\w-])", current)]
    unmounted = [mount for mount in guest.mounts if f"{mount.source},mp={mount.target}" not in current]
    free = (number for number in range(256) if not re.search(rf"^dev{number}:", current, re.MULTILINE))
    options = [f"-dev{number} {node},mode=0666" for node, number in zip(missing, free, strict=False)]
    free = (number for number in range(256) if not re.search(rf"^mp{number}:", current, re.MULTILINE))
    for mount, number in zip(unmounted, free, strict=False):
        options.append(f"-mp{number} {mount.source},mp={mount.target}{',ro=1' if mount.read_only else ''}")
    if not options:
        return []
    return [
        Refusal(
            where,
            f"{path} does not pass in " + ", ".join([*missing, *(mount.source for mount in unmounted)]),
            "the service would not find its GPUs or its files",
            f"pct set {guest.id} {' '.join(options)}, then restart the container when its users can spare it",
        )
    ]
