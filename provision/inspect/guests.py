"""Virtual machines that name GPUs, and Proxmox's resource mappings. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from checks.snapshot import CouldNotLook
from provision.host.vms import VmReference, life, mapping, vm_references
from provision.host.vms.address import PciAddress
from provision.inspect.functions import Function
from provision.inspect.look import Look
from provision.inspect.report import NONE, Finding, Held

MAPPING = "/etc/pve/mapping/pci.cfg"
_SOURCE = "qemu-server, PVE/QemuServer/PCI.pm"


def references(look: Look) -> tuple[VmReference, ...]:
    """Raises CouldNotLook when the virtual machines were not looked at."""
    there = ("/etc/pve", "/etc/libvirt/qemu")
    if look.recorded and not any(_was_there(look, path) or look.is_absent(path) for path in there):
        raise CouldNotLook("the recorded tree has neither /etc/pve nor /etc/libvirt/qemu")
    return tuple(_as_recorded(look, one) for one in vm_references(look.snapshot))


def _as_recorded(look: Look, one: VmReference) -> VmReference:
    """Which of libvirt's domains run, its folder in /run tells; a tree that has none of it does not tell."""
    run = "/run/libvirt/qemu/*.pid"
    if one.kind != "libvirt" or one.status != "stopped" or not look.recorded:
        return one
    running = look.snapshot.sections.get(("names", run))
    if (running is not None and (running.data or b"").strip()) or look.is_absent(run):
        return one
    return replace(one, status="unknown")


def _was_there(look: Look, path: str) -> bool:
    return any(
        known == path or known.startswith(f"{path}/")
        for _, known in look.snapshot.sections
        if known.startswith(path)
    ) and any(
        section.data is not None
        for (_, known), section in look.snapshot.sections.items()
        if known == path or known.startswith(f"{path}/")
    )


def facts(found: Sequence[VmReference]) -> list[dict[str, Any]]:
    return [
        {
            "vm": one.vmid,
            "name": one.name or NONE,
            "kind": one.kind,
            "node": one.node or "unknown",
            "where": one.where,
            "text": one.text.strip(),
            "section": one.section if one.snapshot is None else f"snapshot {one.snapshot}",
            "functions": [_named(address) for address in one.addresses],
            "mapping": one.mapping,
            "unresolved": one.unresolved,
            "onboot": one.onboot,
            "ha": one.ha or NONE,
            "status": one.status,
            "leaves_at_next_start": one.leaving,
            "hookscript": one.hookscript,
            "meaning": meaning(one),
        }
        for one in found
    ]  # fmt: skip


def meaning(one: VmReference) -> str:
    """What a reference means for a release of the functions."""
    if one.unresolved:
        return f"what it takes cannot be told: {one.unresolved}"
    if not one.local:
        return f"it belongs to node {one.node} and takes nothing here"
    if one.section == "template":
        return "a template is never started; a clone of it would take the device"
    if one.section == "snapshot":
        return f"only the snapshot {one.snapshot} names it: weaker, it counts again after a roll-back to it"
    if one.leaving:
        return "it is still the machine's until its next start applies the pending delete"
    if one.status == "running" or one.ha == "started":
        kept = "the HA manager keeps it started" if one.ha == "started" else "it is running"
        return f"in use: {kept}; hands off"
    if re.search(r"[:,]\s*mdev=", one.text):
        return "a start makes a mediated device (vGPU) on the GPU, which NVIDIA's driver for vGPU hosts must drive then"
    if one.onboot:
        return "a start takes the device from the host, and it starts with the host (onboot)"
    return "a start takes the device from the host, without any configuration of vfio"


def next_step(one: VmReference) -> str:
    """What the operator can do so that it takes nothing any more."""
    if not one.local or one.section == "template" or one.unresolved:
        return ""
    if one.section == "snapshot":
        return f"nothing now; without the snapshot it is gone: qm delsnapshot {one.vmid} {one.snapshot}"
    if one.leaving:
        return f"qm stop {one.vmid} or its next start: then it is released"
    if one.kind == "libvirt":
        return f"virsh edit {one.vmid}: take the hostdev out"
    parts = [f"qm set {one.vmid} --delete {one.key}"]
    if one.onboot:
        parts.append(f"or only keep it from starting: qm set {one.vmid} --onboot 0")
    return ", ".join(parts)


def holds(one: VmReference, gpu: Function, parts: Sequence[Function]) -> bool:
    """Does a start of the machine take the GPU or what goes with it: its slot, and all of its group but bridges?"""
    mine = [gpu, *(part for part in parts if not part.is_bridge)]
    return one.local and any(one.covers(function.bdf) for function in mine)


def held(one: VmReference, gpu: Function, parts: Sequence[Function]) -> Held:
    """``gpu`` and ``parts``: of which the functions that a start takes are named."""
    path, _, line = one.where.rpartition(":")
    return Held(
        path,
        int(line),
        one.text,
        f"VM {one.vmid}: {meaning(one)}",
        tuple(str(function.bdf) for function in (gpu, *parts) if one.covers(function.bdf)),
        tuple(map(_named, one.addresses)),
        next_step(one),
    )


def _named(address: PciAddress) -> str:
    return str(address) if address.function is not None else f"{address} (all functions of the slot)"


def takes(one: VmReference, gpu: Function, parts: Sequence[Function]) -> bool:
    """Would a start of the machine, as it is defined now, take the GPU?"""
    return one.startable and not one.leaving and holds(one, gpu, parts)


def users(
    found: Sequence[VmReference], look: Look, gpu: Function, parts: Sequence[Function]
) -> Iterator[str]:
    """Machines that have the GPU now, or are about to."""
    for one in found:
        if not one.startable or not holds(one, gpu, parts):
            continue
        state = "running" if one.status == "running" else "HA started" if one.ha == "started" else None
        if state:
            yield f"VM {one.vmid} ({one.name or one.kind}), {state}: {one.where}"
    for kept in reservations(look) or ():
        if kept.live and any(kept.address.covers(function.bdf) for function in (gpu, *parts)):
            yield f"VM {kept.vmid} by its reservation ({life.RESERVATIONS}:{kept.line}): {kept.why}"


def reservations(look: Look) -> tuple[life.Reservation, ...] | None:
    """None: they could not be read."""
    return look.attempt("reservations", lambda: life.reservations(look.snapshot))


def is_gone(look: Look, one: life.Reservation) -> bool:
    """Was it left behind for sure? Of a recorded tree only where the record says that the process was looked for."""
    process = re.fullmatch(r"its process (\d+) is gone", one.why)
    return not one.live and (process is None or look.is_absent(f"/proc/{process[1]}/cmdline"))


def reserved_perhaps(look: Look, gpu: Function, parts: Sequence[Function]) -> Iterator[str]:
    """Reservations of which it is not known whether they count."""
    found = reservations(look)
    if found is None:
        yield "reservations of devices"
    for kept in found or ():
        mine = any(kept.address.covers(function.bdf) for function in (gpu, *parts))
        if mine and not kept.live and not is_gone(look, kept):
            yield f"the process of VM {kept.vmid}'s reservation ({life.RESERVATIONS}:{kept.line})"


def unsure(found: Sequence[VmReference], gpu: Function, parts: Sequence[Function]) -> Iterator[str]:
    """Machines of which it is not known whether they run."""
    for one in found:
        if takes(one, gpu, parts) and one.status == "unknown" and one.ha != "started":
            yield f"state of VM {one.vmid}"


def mappings(look: Look) -> list[dict[str, Any]]:
    """Proxmox's resource mappings; none where there is no such file on a machine that was looked at whole."""
    text = look.text(MAPPING)
    found = []
    for name, rows in mapping.mappings(text or "").items():
        for row in rows:
            found.append(
                {
                    "mapping": name,
                    "node": row.node or "unknown",
                    "functions": [str(address) for address in row.addresses],
                    "where": f"{MAPPING}:{row.line}",
                    "wrong": row.wrong,
                }
            )
    return found


def findings(found: Sequence[VmReference], rows: Sequence[dict[str, Any]]) -> Iterator[Finding]:
    """References that cannot be resolved, machines that take a GPU at boot, and mappings that share a device."""
    for one in found:
        if one.unresolved:
            yield Finding("vm.unresolved", "note", one.where, one.text.strip(), meaning(one), "", _SOURCE)
        elif (
            one.startable
            and not one.leaving
            and (one.onboot or one.status == "running" or one.ha == "started")
        ):
            devices = ", ".join(map(str, one.addresses))
            yield Finding(
                "vm.takes",
                "problem",
                one.where,
                f"VM {one.vmid} takes {devices}",
                f"{meaning(one)}: a release of {devices} would not last",
                next_step(one),
                _SOURCE,
            )
        else:
            yield Finding(
                "vm.names", "note", one.where, one.text.strip(), meaning(one), next_step(one), _SOURCE
            )
    taken: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for function in row["functions"]:
            taken.setdefault((str(row["node"]), function), []).append(str(row["mapping"]))
    for (node, function), names in taken.items():
        if len(names) > 1:
            yield Finding(
                "mapping.shared",
                "note",
                function,
                f"the mappings {', '.join(names)} share it on node {node}",
                "virtual machines that use them cannot run at the same time",
                "",
                "pve-guest-common, PVE/Mapping/PCI.pm",
            )
