"""Why nothing is touched: GPUs in use, gone, or held by what only the operator can change. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from checks.snapshot import CouldNotLook, Snapshot
from provision.host import boot
from provision.host.release import cmdline, configuration, machines
from provision.host.release.reasons import ROWS, Look
from provision.host.release.state import Hands
from provision.host.release.target import nothing
from provision.host.view import PciFunction
from provision.plan import Refusal


def all_of(snapshot: Snapshot, seen: Hands, look: Look) -> Iterator[Refusal]:
    """Every reason at once. Raises CouldNotLook when a named GPU was not asked whether it answers."""
    for gpu in seen.gpus:
        if gpu.config is None:
            raise CouldNotLook(f"the configuration space of {gpu.bdf} was not read")
        for row in ROWS:
            text = row.seen(look, gpu) if row.outcome == "refuse" else None
            if text:
                yield Refusal(f"GPU {gpu.bdf}", text, row.why, row.next_step)
        yield from _in_use(seen, look, gpu)
        yield from _neighbours(seen, gpu)
    yield from machines.refusals(snapshot, seen)
    yield from _left_to_the_operator(seen)
    yield from _running_command_line(snapshot, seen)
    for path in configuration.links(snapshot, seen.places, seen.target):
        yield Refusal(
            path,
            "it holds a GPU and is a symbolic link",
            "what it leads to may belong to a package or to another place",
            f"put a file in its place (cp --remove-destination $(readlink -f {path}) {path}), then run again",
        )


def _in_use(seen: Hands, look: Look, gpu: PciFunction) -> Iterator[Refusal]:
    """A virtual machine has the IOMMU group of its GPU open: /dev/vfio/GROUP, or /dev/vfio/devices/vfioN. A process
    that kept a device alone does not tell which: it counts for every GPU on vfio-pci."""
    groups = {function.group for function in seen.of(gpu) if function.group}
    nodes = {f"/dev/vfio/{prefix}{group}" for group in groups for prefix in ("", "noiommu-")}
    nodes |= {f"/dev/vfio/devices/{function.vfio_dev}" for function in seen.of(gpu) if function.vfio_dev}
    users = [opener for opener in look.openers if opener.target in nodes]
    known = {
        opener.pid
        for opener in look.openers
        if re.match(r"/dev/vfio/(noiommu-)?\d|/dev/vfio/dev", opener.target)
    }
    if any(function.on_vfio for function in seen.of(gpu)):
        users += [user for user in look.openers if "vfio-device" in user.target and user.pid not in known]
    if users:
        yield Refusal(
            f"GPU {gpu.bdf}",
            "in use: " + "; ".join(f"{user} has {user.target} open" for user in users),
            "a virtual machine would lose its GPU, and the unbind would wait for it without end",
            "shut that virtual machine down (or end the process), then run again: "
            + ", ".join(sorted({f"ps -fp {user.pid}" for user in users})),
        )


def _neighbours(seen: Hands, gpu: PciFunction) -> Iterator[Refusal]:
    """An IOMMU group belongs to virtual machines or to the host as a whole (kernel, Documentation/driver-api/vfio)."""
    groups = {function.group for function in seen.of(gpu)} - {None}
    for other in seen.others:
        if other.group in groups and other.on_vfio:
            yield Refusal(
                f"GPU {gpu.bdf}",
                f"{other.bdf} ({other.vendor[2:]}:{other.device[2:]}) is in the same IOMMU group {other.group} "
                f"and bound to {other.driver}",
                "a group cannot serve a virtual machine and the host at the same time",
                f"take {other.bdf} from the virtual machine that has it, or name it in machine.gpus when it is a GPU",
            )


def _running_command_line(snapshot: Snapshot, seen: Hands) -> Iterator[Refusal]:
    """Without /etc/kernel/cmdline, proxmox-boot-tool gives systemd-boot the command line that runs now."""
    path = "/etc/kernel/cmdline"
    if "uefi" not in boot.boot_partitions(snapshot) or snapshot.file(path) is not None:
        return
    for holder in cmdline.find("/proc/cmdline", snapshot.text("/proc/cmdline") or ""):
        if holder.holds is nothing or any(holder.holds(function) for function in seen.ours):
            yield Refusal(
                "/proc/cmdline",
                f"the kernel was started with {holder.text}, and there is no {path}",
                "systemd-boot's entries are then made from the running command line: the next boot has it again",
                f"write the command line without it into {path}, in one line, then run again",
            )


def _left_to_the_operator(seen: Hands) -> Iterator[Refusal]:
    for place in seen.places:
        for holder in place.holders:
            if holder.instead and any(holder.holds(function) for function in seen.ours):
                yield Refusal(
                    f"{holder.path}:{holder.line}",
                    f"{holder.what}: {holder.text.strip()}",
                    "after the next boot the GPU would be held again",
                    holder.instead,
                )
