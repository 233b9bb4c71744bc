"""Virtual machines and the GPUs to be released: who has them, who would take them at the next start. Pure.

A virtual machine takes the whole IOMMU group of what it names. So one that names any function of a GPU's slot, or of
its group, counts for the GPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from checks.bdf import Bdf
from checks.snapshot import Snapshot
from provision.host import vms
from provision.host.release.state import Hands
from provision.host.view import PciFunction
from provision.host.vms import VmReference, hooks, life
from provision.plan import Refusal


def refusals(snapshot: Snapshot, seen: Hands) -> Iterator[Refusal]:
    """A GPU that a virtual machine has, is being given, or would take at its next start, is not touched. Raises
    CouldNotLook."""
    references = vms.vm_references(snapshot)
    for gpu in seen.gpus:
        concerned = group_of(seen, gpu)
        for reservation in life.reservations(snapshot):
            if reservation.live and any(reservation.address.covers(one.bdf) for one in concerned):
                yield Refusal(
                    f"GPU {gpu.bdf}",
                    f"virtual machine {reservation.vmid} has {reservation.address} reserved "
                    f"({life.RESERVATIONS}:{reservation.line}): {reservation.why}",
                    "it would lose its GPU, or fail to start",
                    f"qm shutdown {reservation.vmid}, then run again",
                )
        for reference in references:
            covers = reference.startable and any(reference.covers(one.bdf) for one in concerned)
            if covers and not _only_told(gpu, reference):
                yield _refusal(gpu.bdf, reference)


def _only_told(gpu: PciFunction, reference: VmReference) -> bool:
    """The host has the GPU already, and the machine that lists it is started by nobody but an operator by hand: nothing
    is taken from it, so the work on the rest goes on."""
    idle = reference.status == "stopped" and not reference.onboot and reference.ha != "started"
    return gpu.driver == "nvidia" and idle


def group_of(seen: Hands, gpu: PciFunction) -> tuple[PciFunction, ...]:
    """What goes to a virtual machine together with a GPU: its slot, and all of its group but bridges."""
    groups = {function.group for function in seen.of(gpu)} - {None}
    return (*seen.of(gpu), *(other for other in seen.others if other.group in groups))


def _refusal(bdf: Bdf, reference: VmReference) -> Refusal:
    who = f"virtual machine {reference.vmid}" + (
        f" ({reference.name})" if reference.name not in ("", reference.vmid) else ""
    )
    if reference.running:
        state, why = "is running and has it", "it would lose its GPU while it works"
    elif reference.ha == "started":
        state, why = "is kept started by the HA manager and lists it", "its next start takes the GPU away"
    elif reference.status == "unknown":
        state, why = "lists it, and whether it runs could not be told", "it may be at work with the GPU"
    else:
        state, why = "is stopped and lists it", "its next start takes the GPU away from the host"
        if reference.onboot:
            state = "is stopped, starts with the machine and lists it"
    if reference.leaving:
        state += ", until its next start takes that out"
    via = f", by mapping {reference.mapping}" if reference.mapping else ""
    return Refusal(f"GPU {bdf}", f"{who} {state}{via} ({reference})", why, _next_step(bdf, reference))


def _next_step(bdf: Bdf, reference: VmReference) -> str:
    vmid, key = reference.vmid, reference.key
    if reference.kind == "libvirt":
        stop = f"virsh shutdown {vmid}, then " if reference.running else ""
        return f"{stop}take its hostdev out: virsh edit {vmid}; then run again"
    steps = []
    if reference.ha == "started":
        steps.append(f"ha-manager set vm:{vmid} --state stopped")
    elif reference.running:
        steps.append(f"qm shutdown {vmid}")
    if key == "args":
        steps.append(f"take vfio-pci out of its args: qm set {vmid} --args …")
    else:
        steps.append(f"hand it over: provision assign INVENTORY {bdf} lxc (or qm set {vmid} --delete {key})")
    return ", then ".join(steps)


def notes(snapshot: Snapshot, seen: Hands) -> list[str]:
    """What mentions the GPUs and holds none now: snapshots, templates, mappings that lead nowhere, what was left."""
    found = []
    concerned = [one for gpu in seen.gpus for one in group_of(seen, gpu)]
    everywhere = vms.vm_references(snapshot)
    for reference in everywhere:
        here = any(address.covers(one.bdf) for address in reference.elsewhere for one in concerned)
        if here and reference.ha == "started" and reference.section in ("current", "pending"):
            found.append(
                f"{reference}: the HA manager keeps virtual machine {reference.vmid} of node {reference.node} started, "
                f"and its mapping {reference.mapping} has a GPU of this machine: moved here, it would take it "
                f"(ha-manager set vm:{reference.vmid} --state stopped, or take the entry out of the mapping)"
            )
    references = [reference for reference in everywhere if reference.local]
    for reference in references:
        ours = any(reference.covers(one.bdf) for one in concerned)
        if ours and reference.leaving and reference.status == "stopped" and reference.section == "current":
            found.append(
                f"{reference}: virtual machine {reference.vmid} is stopped and gives it back: its next start takes "
                "the line out first, and does not take the GPU"
            )
        if reference.unresolved is not None:
            found.append(f"{reference}: {reference.unresolved}; it names no device")
        elif ours and reference.section == "snapshot":
            found.append(
                f"{reference}: snapshot {reference.snapshot} has it; a rollback to it takes the GPU back"
            )
        elif ours and reference.section == "template":
            found.append(
                f"{reference}: virtual machine {reference.vmid} is a template; a clone would take it"
            )
    for gpu in seen.gpus:
        for reference in references:
            covers = reference.startable and any(reference.covers(one.bdf) for one in group_of(seen, gpu))
            if covers and _only_told(gpu, reference):
                refusal = _refusal(gpu.bdf, reference)
                found.append(f"{refusal.where}: {refusal.seen}; {refusal.why}. Next: {refusal.next_step}")
    for reservation in life.reservations(snapshot):
        if not reservation.live and any(reservation.address.covers(one.bdf) for one in concerned):
            where = f"{life.RESERVATIONS}:{reservation.line}"
            found.append(f"{where}: left behind by virtual machine {reservation.vmid}: {reservation.why}")
    return found + _hooks(snapshot, references, concerned)


def _hooks(
    snapshot: Snapshot, references: Sequence[VmReference], concerned: Sequence[PciFunction]
) -> list[str]:
    """Hook scripts run when their virtual machine starts or stops: not at the machine's start."""
    found = []
    for hook in hooks.hooks(snapshot):
        whose = [one for one in references if one.vmid == hook.vmid]
        if hook.binds or any(one.covers(function.bdf) for one in whose for function in concerned):
            found.append(f"{hook}")
    return found
