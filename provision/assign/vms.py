"""The keys of Proxmox's virtual machines that a hand-over sets or takes out, and why a virtual machine is left alone.

A virtual machine that is not positively stopped is never edited: its process would go on with what it was started
with, and the change would stay pending (qemu-server, PVE/API2/Qemu.pm). Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from checks.bdf import Bdf
from checks.snapshot import CouldNotLook, Section, Snapshot
from provision.assign.handover import Handover, VmKey
from provision.host import view
from provision.host.vms import VmReference, grammar, life, vm_references
from provision.host.vms.proxmox import local_node
from provision.plan import Item, Refusal, Step
from provision.spec import Machine

PLACES = 16
"""hostpci0 to hostpci15 (qemu-server, PVE/QemuServer/PCI.pm, MAX_HOSTPCI_DEVICES)."""

_SAID_BY_STEP_2 = ("it runs", "the HA manager keeps it started", "it has reserved")

Keys = tuple[list[Item], list[Refusal], list[str]]


def requests(vmid: str) -> list[str]:
    """What has to be looked at of a virtual machine that may have no device yet."""
    return [f"glob:/etc/pve/nodes/*/qemu-server/{vmid}.conf", f"cmd:qm-status-{vmid}:qm status {vmid}"]


def keys(machine: Machine, snapshot: Snapshot, wanted: Handover) -> Keys:
    """The changes of virtual machines, why they cannot be made, and what is only said. Raises CouldNotLook."""
    if wanted.to == "lxc":
        return _taken(machine, snapshot, wanted.bdf)
    if wanted.vmid is not None:
        return _listed(machine, snapshot, wanted.bdf, wanted.vmid)
    names = sorted({reference.vmid for reference in _naming(snapshot, wanted.bdf)})
    note = (
        f"GPU {wanted.bdf} is named by VM {', '.join(names)}"
        if names
        else f"no virtual machine names GPU {wanted.bdf}: --vmid N adds it to one, or qm set N --hostpci0 "
        f"{_slot(wanted.bdf)},pcie=1"
    )
    return [], [], [note]


def as_if(snapshot: Snapshot, changes: Sequence[VmKey]) -> Snapshot:
    """The same look at the machine, as if the keys were out of the virtual machines' files already."""
    sections = dict(snapshot.sections)
    for change in changes:
        if change.after is not None:
            continue
        path, text = _file(snapshot, change.vmid)
        gone = {
            setting.line
            for setting in grammar.settings(text).values()
            if setting.key == change.key and setting.section in (grammar.CURRENT, grammar.PENDING)
        }
        text = sections["file", path].data.decode(errors="surrogateescape")  # type: ignore[union-attr]
        lines = ["" if at in gone else line for at, line in enumerate(text.split("\n"), 1)]
        data = "\n".join(lines).encode(errors="surrogateescape")
        sections["file", path] = Section("file", path, data)
    return replace(snapshot, sections=sections)


def _slot(bdf: Bdf) -> str:
    """Without a function: all functions of the slot are meant."""
    return str(bdf).rsplit(".", 1)[0]


def _file(snapshot: Snapshot, vmid: str) -> tuple[str, str]:
    """Path and text of a virtual machine of this node. Raises CouldNotLook when it is not there."""
    node = local_node(snapshot) if snapshot.data("vms", "/etc/pve") is not None else None
    for path in (f"/etc/pve/nodes/{node}/qemu-server/{vmid}.conf", f"/etc/pve/qemu-server/{vmid}.conf"):
        if ("file", path) in snapshot.sections:
            data = snapshot.file(path)
            if data is not None:
                return path, data.decode(errors="surrogateescape")
    raise CouldNotLook(f"there is no VM {vmid} on this machine ({node or 'no Proxmox node'}): qm list")


def _naming(snapshot: Snapshot, bdf: Bdf) -> list[VmReference]:
    """What would take a function of the GPU's slot at a start."""
    slot = (bdf.domain, bdf.bus, bdf.slot)
    functions = [function.bdf for function in view.pci_functions(snapshot) if function.slot == slot] or [bdf]
    return [
        reference
        for reference in vm_references(snapshot)
        if reference.startable and any(reference.covers(function) for function in functions)
    ]


def _hands_off(snapshot: Snapshot, vmid: str, text: str) -> Iterator[Refusal]:
    """Why this virtual machine is not edited."""
    found = grammar.settings(text)

    def said(key: str) -> str | None:
        setting = found.get((grammar.CURRENT, key))
        return setting.value if setting else None

    where = f"VM {vmid}"
    status = life.status(snapshot, vmid)
    if status != "stopped":
        seen = "it runs" if status == "running" else "it cannot be told whether it runs"
        why = "a running virtual machine is never edited, and it may use the GPU"
        yield Refusal(where, seen, why, f"shut it down: qm shutdown {vmid}; then run again")
    for reserved in life.reservations(snapshot):
        if reserved.vmid == vmid and reserved.live:
            yield Refusal(
                where,
                f"it has reserved {reserved.address} ({life.RESERVATIONS}:{reserved.line}): {reserved.why}",
                "it starts, or runs, with that device",
                f"wait for it, or shut it down: qm shutdown {vmid}; then run again",
            )
    ha_text = (snapshot.text(life.RESOURCES) or "") if ("file", life.RESOURCES) in snapshot.sections else ""
    state = life.ha_states(ha_text).get(vmid)
    if state not in (None, "stopped", "disabled"):
        yield Refusal(
            where,
            f"the HA manager keeps it {state}",
            "it may be started at any moment, also in the middle of the change",
            f"ha-manager set vm:{vmid} --state stopped, then run again",
        )
    if said("lock") is not None:
        yield Refusal(
            where,
            f"it is locked ({said('lock')})",
            "something is at work on it, and qm set would refuse",
            f"wait for it to end; a lock that was left over goes with: qm unlock {vmid}",
        )
    if grammar.is_true(said("template")):
        yield Refusal(
            where, "it is a template", "a template never runs", "name a virtual machine with --vmid"
        )


def _taken(machine: Machine, snapshot: Snapshot, bdf: Bdf) -> Keys:
    items, refusals, notes = [], [], []
    slot = (bdf.domain, bdf.bus, bdf.slot)
    seen: set[tuple[str, str]] = set()
    for reference in _naming(snapshot, bdf):
        if reference.kind != "qemu-server" or (reference.vmid, reference.key) in seen:
            continue
        seen.add((reference.vmid, reference.key))
        _, text = _file(snapshot, reference.vmid)
        why_not = list(_hands_off(snapshot, reference.vmid, text))
        # That it runs, may be started or has the GPU reserved is said by step 2, which would release it.
        refusals += [refusal for refusal in why_not if not refusal.seen.startswith(_SAID_BY_STEP_2)]
        more = [one for one in reference.addresses if (one.domain, one.bus, one.slot) != slot]
        if reference.key == "args" or more:
            what = "with args" if reference.key == "args" else f"together with {', '.join(map(str, more))}"
            refusals.append(
                Refusal(
                    reference.where,
                    f"VM {reference.vmid} names the GPU {what}: {reference.text}",
                    "what else stands there is yours to keep",
                    f"take the GPU out yourself: qm set {reference.vmid} --{reference.key} …; then run again",
                )
            )
        elif not why_not:
            now = grammar.settings(text).get((grammar.CURRENT, reference.key))
            change = VmKey(reference.vmid, reference.key, now.value if now else None, None)
            vm = f"VM {reference.vmid} is stopped"
            said = f"qm set {reference.vmid} --delete {reference.key}   (now {reference.text}; {vm})"
            items.append(_item(machine, "assign.unlist", change, said))
            if _pending(text, reference.key):
                notes.append(f"the other pending changes of VM {reference.vmid} come into force with qm set")
    return items, refusals, notes


def _pending(text: str, key: str) -> bool:
    return any(
        setting.section == grammar.PENDING and setting.key != key
        for setting in grammar.settings(text).values()
    )


def _listed(machine: Machine, snapshot: Snapshot, bdf: Bdf, vmid: str) -> Keys:
    try:
        _, text = _file(snapshot, vmid)
    except CouldNotLook as error:
        refusal = Refusal(
            "--vmid", str(error), "only a virtual machine of this machine can have its GPU", "qm list"
        )
        return [], [refusal], []
    if any(reference.vmid == vmid for reference in _naming(snapshot, bdf)):
        return [], [], [f"VM {vmid} names GPU {bdf} already"]
    refusals = list(_hands_off(snapshot, vmid, text))
    found = grammar.settings(text)
    taken = {key for section, key in found if section in (grammar.CURRENT, grammar.PENDING)}
    free = next((number for number in range(PLACES) if f"hostpci{number}" not in taken), None)
    if free is None:
        refusals.append(
            Refusal(
                f"VM {vmid}",
                "hostpci0 to hostpci15 are all in use",
                "there is no place for another device",
                f"qm config {vmid}",
            )
        )
    if refusals or free is None:
        return [], refusals, []
    kind = found.get((grammar.CURRENT, "machine"))
    q35 = kind is not None and "q35" in kind.value
    value = f"{_slot(bdf)},pcie=1" if q35 else _slot(bdf)
    notes = (
        []
        if q35
        else [
            f"VM {vmid} has no q35 chip set, so that the GPU is plain PCI there: qm set {vmid} --machine q35"
        ]
    )
    if _pending(text, ""):
        notes.append(f"the pending changes of VM {vmid} come into force with qm set")
    change = VmKey(vmid, f"hostpci{free}", None, value)
    return [_item(machine, "assign.list", change, f"qm set {vmid} --hostpci{free} {value}")], [], notes


def _item(machine: Machine, kind: str, change: VmKey, text: str) -> Item:
    return Item(Step.RELEASE, kind, machine.host_name, f"{change.key} of VM {change.vmid}", text, change)
