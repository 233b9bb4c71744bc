"""Why a GPU is not switched while the machine runs: rows, each with what it looks at and where the rule is from. Pure.

``reboot``: the next boot does it. ``refuse``: a reboot does not help either, and nothing is touched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from provision.host import users
from provision.host.boot import Module, Opener
from provision.host.release import cmdline, log
from provision.host.view import PciFunction


@dataclass(frozen=True)
class Look:
    """What the rows look at. ``driver`` and ``pinned``: version and flavour of the loaded module, of the inventory;
    ``groups`` are the control groups of those who have its device files open, ``ours`` the containers that kpro may
    stop."""

    running_cmdline: str
    running_kernel: str
    module_trees: tuple[str, ...]
    modules: dict[str, Module]
    openers: tuple[Opener, ...]
    framebuffers: str
    kernel_log: tuple[str, ...]
    driver: tuple[str, str] | None
    pinned: tuple[str, str] | None
    groups: dict[int, str] = field(default_factory=dict)
    ours: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Row:
    """``seen`` says what there is of it on this GPU, None when nothing. ``host``: it is about the whole machine."""

    id: str
    outcome: Literal["reboot", "refuse"]
    seen: Callable[[Look, PciFunction], str | None]
    why: str
    next_step: str
    source: str
    host: bool = False


def _lost(look: Look, gpu: PciFunction) -> str | None:
    return "its configuration space reads ff" if gpu.config == "ffffffff" else None


def _asleep(look: Look, gpu: PciFunction) -> str | None:
    if gpu.power_state == "D3cold":
        return "it stays in D3cold"
    if gpu.power_state in ("unknown", "error") and gpu.driver is not None:
        # One without a driver says "unknown" too, and is well: its driver left it so (pci_device_remove).
        return f"{gpu.driver} has it, and its power state is {gpu.power_state}"
    said = log.lost_power(look.kernel_log, gpu.bdf)
    return f"the kernel's log says: {said}" if said else None


def _console(look: Look, gpu: PciFunction) -> str | None:
    if gpu.driver != "nouveau":
        return None
    if gpu.boot_vga:
        return "nouveau has it, and the firmware's console is on it"
    return (
        "nouveau has it, and the console is on nouveau's framebuffer"
        if "nouveau" in look.framebuffers
        else None
    )


def _other_driver(look: Look, gpu: PciFunction) -> str | None:
    if look.driver is None or look.pinned is None or look.driver == look.pinned:
        return None
    strangers = users.users(look.openers, look.modules, look.groups, look.ours).strangers
    if not strangers:
        return None
    return (
        f"NVIDIA's module {look.driver[0]} ({look.driver[1]}) is in use by {', '.join(strangers)}, "
        "which kpro may not stop"
    )


def _no_window(look: Look, gpu: PciFunction) -> str | None:
    if gpu.bar1 == 0:
        return "its memory window BAR1 has no address"
    said = log.no_window(look.kernel_log, gpu.bdf)
    return f"the kernel's log says: {said}" if said and gpu.driver != "nvidia" else None


BLACKWELL = ("29", "2b", "2c", "2d", "2e", "2f", "31", "32", "33", "34")
"""First byte of the device ids of Blackwell GPUs (pci.ids 2026-10; GPU classes only)."""


def _blackwell(look: Look, gpu: PciFunction) -> str | None:
    if gpu.device[2:4] not in BLACKWELL or gpu.driver == "nvidia":
        return None
    blackwell = f"it is a Blackwell GPU (10de:{gpu.device[2:]})"
    if gpu.on_vfio:
        return f"{blackwell} on {gpu.driver}"
    used = log.was_used(look.kernel_log, gpu.bdf)
    return f"{blackwell} that a virtual machine has had since the boot: {used}" if used else None


def _xid(look: Look, gpu: PciFunction) -> str | None:
    said = log.wants_reboot(look.kernel_log, gpu.bdf)
    return f"the kernel's log says: {said}" if said else None


def _stuck(look: Look, gpu: PciFunction) -> str | None:
    for opener in look.openers:
        if opener.target.endswith("/unbind"):
            return f"{opener} still writes to {opener.target}"
    if gpu.locked:
        return f"the kernel holds {gpu.bdf} locked"
    said = log.being_removed(look.kernel_log, gpu.bdf)
    return f"the kernel's log says: {said}" if said and not gpu.on_vfio else None


def _blacklisted(look: Look, gpu: PciFunction) -> str | None:
    parameter = cmdline.blocked(look.running_cmdline)
    return f"the kernel was booted with {parameter}" if parameter else None


def _no_modules(look: Look, gpu: PciFunction) -> str | None:
    if look.running_kernel in look.module_trees:
        return None
    return f"the running kernel {look.running_kernel} has no folder in /lib/modules any more"


ROWS = (
    Row(
        "config-ff",
        "refuse",
        _lost,
        "a GPU that does not answer can be neither released nor loaded, and touching it can hang the machine",
        "switch the machine off and on (a warm reboot often does not bring it back), then look with: lspci -nn",
        "kernel, PCI_ERROR_RESPONSE; vfio users' reports of 'device inaccessible'",
    ),
    Row(
        "d3cold",
        "reboot",
        _asleep,
        "a GPU without power does not come back by a rebind",
        "a reboot; where that does not help, switch the machine off and take its power for a moment",
        "bryansteiner/gpu-passthrough-tutorial#39 (one report); kernel, drivers/pci/pci.c",
    ),
    Row(
        "nouveau-console",
        "reboot",
        _console,
        "taking the console's driver away leaves the machine without a screen, or hangs it",
        "a reboot with nouveau blacklisted",
        "NVIDIA driver README, 'Interaction with the nouveau driver'",
    ),
    Row(
        "other-driver-in-use",
        "reboot",
        _other_driver,
        "a module in use cannot be exchanged",
        "end what uses it, or reboot",
        "rmmod(8); NVIDIA/gpu-driver-container, order of unloading",
        host=True,
    ),
    Row(
        "bar1-zero",
        "reboot",
        _no_window,
        "without a window the driver says 'BAR1 is 0M @ 0x0' and gives up; the firmware hands them out",
        "a reboot; where that does not help, 'Above 4G decoding' in the firmware's settings",
        "NVIDIA/open-gpu-kernel-modules, kernel-open/nvidia/nv-pci.c",
    ),
    Row(
        "blackwell-after-vm",
        "reboot",
        _blackwell,
        "its reset after a virtual machine can freeze the whole machine when it is bound again",
        "a reboot",
        "NVIDIA/open-gpu-kernel-modules#853 (one report)",
    ),
    Row(
        "xid-154",
        "reboot",
        _xid,
        "the driver itself asks for a reboot of the node",
        "a reboot",
        "NVIDIA Xid catalogue, 154: GPU recovery action changed",
    ),
    Row(
        "unbind-stuck",
        "reboot",
        _stuck,
        "an unbind that blocks cannot be ended, and a second one would wait behind it",
        "end the virtual machine that has the GPU; else a reboot",
        "kernel, drivers/vfio/vfio_main.c: 'task blocked until device is released'; kubevirt/kubevirt#8549",
        host=True,
    ),
    Row(
        "module-blacklist",
        "reboot",
        _blacklisted,
        "with it the kernel refuses the module whoever asks for it",
        "a reboot without it",
        "kernel, Documentation/admin-guide/kernel-parameters: module_blacklist",
        host=True,
    ),
    Row(
        "kernel-without-modules",
        "reboot",
        _no_modules,
        "no module can be loaded into it",
        "a reboot into an installed kernel",
        "modprobe(8)",
        host=True,
    ),
)
