"""A guest that lacks a GPU which the inventory gives it rests: its container is stopped, does not start at boot, and is
configured without the GPU. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from checks.bdf import Bdf
from checks.snapshot import CouldNotLook, Snapshot
from provision.assign.handover import ProxmoxRest, Rest
from provision.guest.decide import Container, container_plan
from provision.guest.proxmox.grammar import parse
from provision.guest.proxmox.lines import device_path
from provision.host import view
from provision.plan import Item, Plan, Step
from provision.spec import Guest, Machine

START = "lxc.start.auto = 1"


def plan(
    inventory: Machine, kept: Machine, guest: Guest, snapshot: Snapshot, record: Mapping[Bdf, str]
) -> Plan:
    """``inventory`` is the machine as it is written, ``kept`` and ``guest`` without the GPUs of the record. Raises
    CouldNotLook for a container in an unknown state."""
    state = view.guest_state(snapshot, guest)
    if state == "absent":
        return Plan(
            kept.name, notes=(f"guest {guest.name} is not made while its GPU is with virtual machines",)
        )
    if not guest.managed:
        note = f"guest {guest.name} is looked after by somebody else: its container stays as it is, without its GPU"
        return Plan(kept.name, notes=(note,))
    if guest.backend == "pct":
        return _proxmox(inventory, kept, guest, snapshot, record, state)
    return _lxc(kept, guest, snapshot, record, state)


def _lxc(kept: Machine, guest: Guest, snapshot: Snapshot, record: Mapping[Bdf, str], state: str) -> Plan:
    normal = container_plan(kept, guest, snapshot)
    if normal.refusals:
        return Plan(kept.name, (), normal.refusals)
    serving = next((item.payload for item in normal.items if isinstance(item.payload, Container)), None)
    code, current = snapshot.command(f"lxc-config-{guest.id}")
    if code != 0:
        raise CouldNotLook(
            f"the configuration of container {guest.id} cannot be read: {current.strip()[:200]}"
        )
    # Nothing to do for a container that serves: its configuration is the one that is there.
    config = (serving.config if serving else current).replace(f"\n{START}\n", "\nlxc.start.auto = 0\n")
    if state == "stopped" and current == config:
        return Plan(kept.name)
    container = replace(serving, config=config) if serving else Container(guest, _folder(snapshot), config)
    return _item(kept, guest, record, Rest(container, state == "running"))


def _folder(snapshot: Snapshot) -> str:
    code, output = snapshot.command("lxc-path")
    if code != 0:
        raise CouldNotLook(f"lxc-config lxc.lxcpath ended with {code}")
    return output.strip()


def _proxmox(
    inventory: Machine, kept: Machine, guest: Guest, snapshot: Snapshot, record: Mapping[Bdf, str], state: str
) -> Plan:
    """Only the nodes of the GPUs that went are taken out; the file's other keys are the operator's or step 6's."""
    text = snapshot.text(f"/etc/pve/lxc/{guest.id}.conf")
    if text is None:
        raise CouldNotLook(f"/etc/pve/lxc/{guest.id}.conf is not there, and the container is {state}")
    conf = parse(text)
    minors = view.minors(snapshot)
    given = next(one for one in inventory.guests if one.name == guest.name)
    lost = [Bdf.parse(bdf) for bdf in given.gpus if Bdf.parse(bdf) in record]
    nodes = {f"/dev/nvidia{minors[bdf]}" for bdf in lost if bdf in minors}
    gone = tuple(
        (key, line.value)
        for key, line in conf.options().items()
        if re.fullmatch("dev[0-9]+", key) and device_path(line) in nodes
    )
    onboot, starts = conf.value("onboot"), conf.is_true("onboot")
    if state == "stopped" and not gone and not starts:
        return Plan(kept.name)
    return _item(
        kept, guest, record, ProxmoxRest(guest.id, gone, onboot if starts else None, state == "running")
    )


def _item(kept: Machine, guest: Guest, record: Mapping[Bdf, str], payload: Rest | ProxmoxRest) -> Plan:
    did = "stop container" if payload.running else "keep container"
    then = ", keep it from starting at boot" if payload.running else " from starting at boot"
    text = f"{did} {guest.id}{then}, and configure it without the GPU that virtual machines have"
    names = ", ".join(service.unit for service in guest.services)
    text += f" (guest {guest.name}{f': {names}' if names else ''} rests)"
    return Plan(kept.name, (Item(Step.RELEASE, "assign.rest", kept.host_name, guest.name, text, payload),))
