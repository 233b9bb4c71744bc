"""Steps 2 and 3 as far as the state goes: files, initramfs, switches, the load, and reasons to reboot. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from checks.snapshot import CouldNotLook, Snapshot
from provision.guest import ours
from provision.host import assigned, boot, shown, users, view
from provision.host.moves import Edits, Load, Reason, Regenerate, Switch
from provision.host.release import configuration, machines, places, refusals, remarks
from provision.host.release.reasons import ROWS, Look
from provision.host.release.state import Hands, hands, moves
from provision.host.view import PciFunction
from provision.plan import Item, Plan, Step
from provision.spec import Machine

Loader = Literal["grub", "proxmox-boot-tool"] | None


def metal_plan(machine: Machine, snapshot: Snapshot) -> tuple[Plan, tuple[Reason, ...]]:
    """What steps 2 and 3 have to do, or why nothing is touched; and why it takes a reboot, if it does.
    Raises CouldNotLook."""
    seen = hands(machine, snapshot) if machine.gpus or assigned.read(snapshot) else None
    if seen is None or not (seen.gpus or seen.assigned):
        return Plan(machine.name), ()
    shown.needed(snapshot)
    look = look_at(machine, snapshot)
    if look.driver is None and any(gpu.driver == "nvidia" for gpu in seen.gpus):
        raise CouldNotLook("a GPU is bound to nvidia, and /proc/driver/nvidia/version is not there")
    why_not = refusals.all_of(snapshot, seen, look)
    items = _files(machine, snapshot, seen)
    waiting = [gpu for gpu in seen.gpus if _to_do(machine, look, seen, gpu)]
    reasons = _reasons(look, waiting)
    if not reasons:
        items += [item for gpu in seen.gpus for item in _switch(machine, seen, gpu)]
        items += _load(machine, look, seen)
    return Plan(machine.name, tuple(items), tuple(why_not), tuple(_notes(snapshot, seen))), reasons


def look_at(machine: Machine, snapshot: Snapshot) -> Look:
    """What the rows of reasons look at. Raises CouldNotLook."""
    pinned = (machine.driver.version, machine.driver.flavour) if machine.driver else None
    return Look(
        boot.running_command_line(snapshot),
        boot.running_kernel(snapshot),
        boot.module_trees(snapshot),
        boot.modules(snapshot),
        boot.openers(snapshot),
        snapshot.text("/proc/fb") or "",
        boot.kernel_log(snapshot),
        view.driver(snapshot),
        pinned,
        users.owners(snapshot),
        ours.names(machine, snapshot),
    )


def _files(machine: Machine, snapshot: Snapshot, seen: Hands) -> list[Item]:
    edits = configuration.edits(snapshot, seen.places, seen.target, seen.kept, seen.assigned)
    items = []
    if edits:
        paths = ", ".join(edit.path for edit in edits)
        what = "say who has which GPU" if seen.assigned else "release the GPUs"
        text = f"{what} in the boot configuration: {paths}"
        items.append(
            _item(machine, Step.RELEASE, "release.files", "boot configuration", text, Edits(tuple(edits)))
        )
    pending = snapshot.file(boot.REGENERATE) is not None
    if edits or pending:
        kernels = boot.kernels(snapshot)
        if not kernels:
            raise CouldNotLook(
                "/boot has no kernel with modules in /lib/modules, whose initramfs is to be made anew"
            )
        loader = _loader(snapshot)
        text = f"make the initramfs of {', '.join(kernels)} anew" + (f" and run {loader}" if loader else "")
        move = Regenerate(kernels, loader)
        items.append(
            _item(machine, Step.RELEASE, "release.regenerate", "initramfs and boot loader", text, move)
        )
    return items


def _loader(snapshot: Snapshot) -> Loader:
    """What writes the boot loader's configuration. It is always run with the initramfs, as undo.sh does: after a cut
    nobody knows which of the two was left behind, and proxmox-boot-tool copies the initramfs to its partitions."""
    if boot.has_boot_partitions(snapshot):
        return "proxmox-boot-tool"
    return "grub" if snapshot.has_tool("update-grub") else None


def _to_do(machine: Machine, look: Look, seen: Hands, gpu: PciFunction) -> bool:
    """Is there anything to switch, bind or load for this GPU?"""
    wrong_driver = machine.driver is not None and (gpu.driver != "nvidia" or look.driver != look.pinned)
    return wrong_driver or bool(moves(seen.of(gpu)))


def _reasons(look: Look, waiting: Sequence[PciFunction]) -> tuple[Reason, ...]:
    found = []
    for row in ROWS:
        for gpu in waiting if row.outcome == "reboot" else ():
            text = row.seen(look, gpu)
            reason = Reason(row.id, "host" if row.host else str(gpu.bdf), text or "")
            if text and reason not in found:
                found.append(reason)
    return tuple(found)


def _switch(machine: Machine, seen: Hands, gpu: PciFunction) -> list[Item]:
    functions = moves(seen.of(gpu))
    if not functions:
        return []
    move = Switch(gpu.bdf, functions, tuple(function.bdf for function in seen.kept))
    parts = [
        f"{f.bdf.short} off {f.now}" if f.now != f.wanted else f"override of {f.bdf.short} cleared"
        for f in functions
    ]
    text = f"switch GPU {gpu.bdf}: {', '.join(parts)}"
    return [_item(machine, Step.RELEASE, "release.online", str(gpu.bdf), text, move)]


def _load(machine: Machine, look: Look, seen: Hands) -> list[Item]:
    if machine.driver is None or not seen.gpus:
        return []
    unbound = [gpu for gpu in seen.gpus if gpu.driver != "nvidia"]
    if not unbound and look.driver == look.pinned:
        return []
    version, flavour = machine.driver.version, machine.driver.flavour
    swap = look.driver if look.driver != look.pinned else None
    move = Load(version, flavour, tuple(gpu.bdf for gpu in seen.gpus), seen.aside, swap)
    bind = f" and bind {', '.join(gpu.bdf.short for gpu in unbound)} to it" if unbound else ""
    instead = f" in place of {swap[0]} ({swap[1]})" if swap else ""
    text = f"load NVIDIA's driver {version} ({flavour}){instead}{bind}"
    return [_item(machine, Step.DRIVER, "driver.load", "nvidia", text, move)]


def _notes(snapshot: Snapshot, seen: Hands) -> list[str]:
    notes = []
    if seen.kept:
        notes.append(f"{', '.join(str(f.bdf) for f in seen.kept if f.is_gpu)} stays with virtual machines")
    for function in seen.others:
        if function.is_gpu and function.config == "ffffffff":
            notes.append(f"GPU {function.bdf}, which the inventory does not name, does not answer on the bus")
        if function.is_gpu and function.driver == "nouveau":
            notes.append(f"GPU {function.bdf} is on nouveau, which is kept away from the next boot on")
    for place in seen.places:
        if place.cleaned(seen.target) != place.text:
            left = {holder.text for holder in place.left(seen.target)}
            notes += [f"{holder} ({holder.what})" for holder in place.holders if holder.text not in left]
    notes += machines.notes(snapshot, seen) + remarks.remarks(snapshot, seen)
    return notes + places.not_looked_at(snapshot) + shown.notes(snapshot)


def _item(machine: Machine, step: Step, kind: str, subject: str, text: str, move: object) -> Item:
    return Item(step, kind, machine.host_name, subject, text, move)
