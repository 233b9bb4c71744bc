"""A GPU that the record gives to virtual machines: is it on vfio-pci, may it go there, does that take a boot. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from checks.bdf import Bdf
from checks.snapshot import CouldNotLook, Snapshot
from provision.assign import users
from provision.assign.handover import Give, Given
from provision.host import view
from provision.host.moves import Reason
from provision.host.release.decide import look_at
from provision.host.release.reasons import ROWS
from provision.host.view import PciFunction
from provision.plan import Item, Refusal, Step
from provision.spec import Guest, Machine

EITHER_WAY = ("config-ff", "d3cold", "nouveau-console", "xid-154", "unbind-stuck", "kernel-without-modules")
"""The rows of provision.host.release.reasons that hold for the way to vfio-pci too; the others are about loading the
driver."""

NVSWITCH = "0x0680"
"""Class of NVSwitches: with them GPUs are one fabric, which nvidia-fabricmanager keeps (NVIDIA, Fabric Manager
User Guide)."""


@dataclass(frozen=True)
class Part:
    """What one GPU adds to the plan."""

    items: tuple[Item, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    reasons: tuple[Reason, ...] = ()


def plan(machine: Machine, snapshot: Snapshot, bdf: Bdf, resting: Sequence[Guest]) -> Part:
    """``resting`` are the guests that are stopped before. Raises CouldNotLook."""
    functions = view.group_functions(snapshot)
    gpu = next((function for function in functions if function.bdf == bdf and function.is_gpu), None)
    if gpu is None:
        return Part(refusals=(_not_there(bdf, functions),))
    slot = tuple(f for f in functions if f.is_nvidia and f.slot == gpu.slot and not f.is_bridge)
    to_do = tuple(function for function in slot if not function.on_vfio)
    if not to_do:
        return Part()
    refusals = list(_refusals(machine, snapshot, gpu, slot, functions, resting))
    reasons = _reasons(machine, snapshot, gpu)
    if reasons:
        return Part((), tuple(refusals), reasons)
    keep = tuple(f.bdf for f in functions if f.is_nvidia and f.slot != gpu.slot and not f.is_bridge)
    move = Give(bdf, tuple(Given(f.bdf, f.driver, f.group or "") for f in to_do), keep)
    parts = ", ".join(f"{f.bdf.short} from {f.driver or 'no driver'}" for f in to_do)
    text = f"hand GPU {bdf} over to vfio-pci: {parts}"
    item = Item(Step.RELEASE, "assign.give", machine.host_name, str(bdf), text, move)
    return Part((item,), tuple(refusals))


def _not_there(bdf: Bdf, functions: Sequence[PciFunction]) -> Refusal:
    there = ", ".join(str(function.bdf) for function in functions if function.is_gpu)
    return Refusal(
        f"GPU {bdf}",
        "no NVIDIA GPU at this address" + (f"; GPUs are at {there}" if there else ""),
        "a wrong address would hand over another device",
        "look at the machine with: lspci -Dnn -d 10de:",
    )


def _refusals(
    machine: Machine,
    snapshot: Snapshot,
    gpu: PciFunction,
    slot: Sequence[PciFunction],
    functions: Sequence[PciFunction],
    resting: Sequence[Guest],
) -> Iterator[Refusal]:
    where = f"GPU {gpu.bdf}"
    look = look_at(machine, snapshot)
    if gpu.config is None:
        raise CouldNotLook(f"the configuration space of {gpu.bdf} was not read")
    for row in ROWS:
        text = row.seen(look, gpu) if row.outcome == "refuse" and row.id in EITHER_WAY else None
        if text:
            yield Refusal(where, text, row.why, row.next_step)
    alone = [str(function.bdf) for function in slot if function.group is None]
    if alone:
        yield Refusal(
            where,
            f"{', '.join(alone)} has no IOMMU group",
            "without one no virtual machine can be given a device",
            "switch VT-d or AMD-Vi on in the firmware's settings (Intel: intel_iommu=on too), reboot, run again",
        )
    yield from _neighbours(gpu, slot, functions)
    strangers = users.foreign(snapshot, gpu.bdf, resting)
    if strangers:
        yield Refusal(
            where,
            "in use: " + "; ".join(strangers),
            "kpro did not start it and stops nothing of others, and the unbind would wait for it without end",
            f"end it, then run again; who it is: fuser -v /dev/nvidia{view.minors(snapshot).get(gpu.bdf, '*')}",
        )
    yield from _fabric(snapshot, gpu, functions, resting)


def _neighbours(
    gpu: PciFunction, slot: Sequence[PciFunction], functions: Sequence[PciFunction]
) -> Iterator[Refusal]:
    """At the start of a virtual machine Proxmox binds every function of the group that is no bridge to vfio-pci
    (qemu-server, PVE/QemuServer/PCI.pm): a network card or another GPU would be gone with it."""
    groups = {function.group for function in slot} - {None}
    for other in functions:
        if other.group in groups and other not in slot and not other.is_bridge and not other.on_vfio:
            what = "the GPU" if other.is_gpu else f"the device {other.vendor[2:]}:{other.device[2:]}"
            yield Refusal(
                f"GPU {gpu.bdf}",
                f"{what} {other.bdf} is in the same IOMMU group {other.group} and on {other.driver or 'no driver'}",
                "a group goes to a virtual machine as a whole: the machine itself would lose that device",
                f"put the GPU into a slot with a group of its own: ls /sys/kernel/iommu_groups/{other.group}/devices",
            )


def _fabric(
    snapshot: Snapshot, gpu: PciFunction, functions: Sequence[PciFunction], resting: Sequence[Guest]
) -> Iterator[Refusal]:
    """Fabric manager is stopped for it, and what runs over the other GPUs' links would not live through that."""
    if not any(function.is_nvidia and function.pci_class[:6] == NVSWITCH for function in functions):
        return
    others = [function for function in functions if function.is_gpu and function.bdf != gpu.bdf]
    busy = [user for other in others for user in users.foreign(snapshot, other.bdf, resting)]
    if busy:
        yield Refusal(
            f"GPU {gpu.bdf}",
            "the machine has NVSwitches, and other GPUs of the fabric are in use: " + "; ".join(busy),
            "nvidia-fabricmanager is stopped for the hand-over, and their work would not live through it",
            "hand it over when the other GPUs are idle",
        )


def _reasons(machine: Machine, snapshot: Snapshot, gpu: PciFunction) -> tuple[Reason, ...]:
    look = look_at(machine, snapshot)
    found = []
    for row in ROWS:
        text = row.seen(look, gpu) if row.outcome == "reboot" and row.id in EITHER_WAY else None
        if text:
            found.append(Reason(row.id, "host" if row.host else str(gpu.bdf), text))
    return tuple(found)
