"""Which kernel boots next, and holding it: a kernel that has no driver must not be booted into. Pure.

kpro holds the running kernel where the one that would follow has no module: on machines that proxmox-boot-tool looks
after by its pin, else by a file of ``/etc/default/grub.d`` (Debian's and Ubuntu's grub-mkconfig read them after
``/etc/default/grub``). It counts as held when the boot loader's own file says so.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from checks.snapshot import CouldNotLook, Snapshot
from provision.host import boot
from provision.plan import Item, Step
from provision.spec import Machine

DROP_IN = "/etc/default/grub.d/zz-kpro-kernel.cfg"
PIN = "/etc/kernel/proxmox-boot-pin"
ONCE = "/etc/kernel/next-boot-pin"
MARK = "/var/lib/kpro/kernel-hold"
"""The kernel that kpro pinned with proxmox-boot-tool: another pin is the operator's."""

NOTHING = "# Written by kpro: no kernel is held.\n"

REQUESTS = [
    f"file:{DROP_IN}",
    f"file:{MARK}",
    "cmd:grub-default:sed -n 's/^[[:space:]]*set default=\"\\([^$]*\\)\"$/\\1/p' /boot/grub/grub.cfg",
]


@dataclass(frozen=True)
class Hold:
    """The boot loader is told to stay with ``kernel``, or to choose by itself again (release)."""

    kernel: str
    loader: Literal["grub", "proxmox-boot-tool"]


def drop_in(kernel: str, entry: str) -> str:
    """The file that makes GRUB boot the menu entry ``entry`` (ids, joined by ``>``) of this kernel."""
    return (
        "# Written by kpro: the newest kernel has no driver, this one stays until it has.\n"
        f'# kernel: {kernel}\nGRUB_DEFAULT="{entry}"\n'
    )


def held(snapshot: Snapshot) -> str | None:
    """The kernel that kpro holds, and that the boot loader boots for that. Raises CouldNotLook."""
    text = snapshot.text(DROP_IN) if ("file", DROP_IN) in snapshot.sections else None
    entry = re.search(r'^# kernel: (\S+)\nGRUB_DEFAULT="(.+)"$', text or "", re.MULTILINE)
    if entry:
        _, defaults = snapshot.command("grub-default")
        return entry[1] if entry[2] in defaults.splitlines() else None
    pinned = _pinned(snapshot)
    return pinned


def _pinned(snapshot: Snapshot) -> str | None:
    mark = (snapshot.text(MARK) or "").strip() if ("file", MARK) in snapshot.sections else ""
    return mark if mark and mark == (snapshot.text(PIN) or "").strip() else None


def following(snapshot: Snapshot) -> str | None:
    """The kernel that would boot next if kpro held none; None where that cannot be told."""
    without = {key: section for key, section in snapshot.sections.items() if key != ("file", DROP_IN)}
    if _pinned(snapshot) is not None:
        pin = without["file", PIN]
        without["file", PIN] = type(pin)(pin.kind, pin.path, None, None)
    return boot.next_kernel(Snapshot(without))


def to_be_ready(snapshot: Snapshot) -> tuple[str, ...]:
    """The running kernel, then the one that would boot next where that is another; where that cannot be told, every
    installed one."""
    running = boot.running_kernel(snapshot)
    after = following(snapshot)
    return tuple(dict.fromkeys([running, *([after] if after else boot.kernels(snapshot))]))


def loader(snapshot: Snapshot) -> Literal["grub", "proxmox-boot-tool"] | None:
    """What can be told to stay with a kernel."""
    if snapshot.file(boot.PROXMOX_LOADERS) is not None:
        return "proxmox-boot-tool"
    return "grub" if snapshot.has_tool("update-grub") else None


def against_holding(snapshot: Snapshot) -> str | None:
    """Why the running kernel cannot be held."""
    running = boot.running_kernel(snapshot)
    if running not in boot.kernels(snapshot):
        return f"the running kernel {running} is not installed any more"
    if loader(snapshot) is None:
        return "neither GRUB nor proxmox-boot-tool is there to be told which kernel boots"
    pins = [path for path in (ONCE, PIN) if (snapshot.text(path) or "").strip()]
    if pins and _pinned(snapshot) is None:
        return f"{pins[0]} names a kernel that its operator chose"
    return None


def hold(machine: Machine, snapshot: Snapshot, arriving: str) -> Item | None:
    """Stays with the running kernel; None where it is held already. Raises CouldNotLook."""
    running, by = boot.running_kernel(snapshot), loader(snapshot)
    if by is None or held(snapshot) == running:
        return None
    text = f"hold kernel {running} at the next boot: {arriving} has no driver yet"
    return Item(Step.DRIVER, "kernel.hold", machine.host_name, running, text, Hold(running, by))


def release(machine: Machine, snapshot: Snapshot) -> Item | None:
    """The boot loader chooses by itself again; None where kpro holds nothing. Raises CouldNotLook."""
    kernel = _asked(snapshot)
    by = loader(snapshot) if kernel else None
    if by is None or kernel is None:
        return None
    text = f"hold kernel {kernel} no longer: the one that boots next has its driver"
    return Item(Step.DRIVER, "kernel.release", machine.host_name, kernel, text, Hold(kernel, by))


def _asked(snapshot: Snapshot) -> str | None:
    """What kpro wrote, in force or not."""
    text = snapshot.text(DROP_IN) if ("file", DROP_IN) in snapshot.sections else None
    entry = re.search(r"^# kernel: (\S+)$", text or "", re.MULTILINE)
    return entry[1] if entry else _pinned(snapshot)


__all__ = ["CouldNotLook", "Hold", "against_holding", "following", "held", "hold", "release", "to_be_ready"]
