"""Who has NVIDIA's device files open, and whom of them kpro may stop: guests of the inventory, NVIDIA's services. Pure.

A process is told by its control group (``/proc/PID/cgroup``, cgroups(7)): LXC names the one of a container
``lxc.payload.NAME``, Proxmox ``lxc/ID/ns``, systemd that of a service ``system.slice/NAME.service``. Only the first
parts count: what is inside a container can call its own groups as it likes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from checks.snapshot import CouldNotLook, Snapshot
from provision.data import gpu_daemons
from provision.host.boot import Module, Opener

# The line of the unified hierarchy, or of systemd's own where both are mounted.
_OWNERS = r"""
find /proc/[0-9]*/fd -maxdepth 1 -lname '/dev/nvidia*' -printf '%h\n' 2>/dev/null | sort -u | while read -r folder; do
  pid=${folder#/proc/} pid=${pid%/fd}
  printf '%s\t%s\n' "$pid" "$(sed -n 's/^[0-9]*:name=systemd://p; s/^0::\(\/.\)/\1/p' "/proc/$pid/cgroup" | head -n 1)"
done
"""
REQUESTS = [f"cmd:gpu-owners:{_OWNERS}"]

UNLOADED = ("nvidia_peermem", "nvidia_uvm", "nvidia_drm", "nvidia_modeset", "nvidia")
"""NVIDIA's modules in the order in which they are unloaded (NVIDIA/gpu-driver-container, _unload_driver)."""

_FILES = {
    "nvidia": r"/dev/(nvidia\d+|nvidiactl|nvidia-caps/.*|nvidia-nvswitch.*|nvidia-nvlink|dri/.*)",
    "nvidia_uvm": r"/dev/nvidia-uvm.*",
    "nvidia_modeset": r"/dev/nvidia-modeset",
}
"""Which device files hold which module."""


def owners(snapshot: Snapshot) -> dict[int, str]:
    """The control group of each process that has a device file of NVIDIA open; empty where it was not looked at: then
    every one of them is a stranger."""
    try:
        _, output = snapshot.command("gpu-owners")
    except CouldNotLook:
        return {}
    rows = [line.split("\t", 1) for line in output.splitlines() if "\t" in line]
    return {int(pid): group.strip() for pid, group in rows if pid.isdecimal()}


def container_of(group: str) -> str | None:
    """The container that a control group belongs to, None for a process of the machine itself."""
    found = re.match(r"/lxc\.payload\.([^/]+)(?:/|$)|/lxc/([^/]+)(?:/|$)", group)
    return (found[1] or found[2]) if found else None


def daemon_of(group: str) -> str | None:
    """NVIDIA's own service that a control group belongs to."""
    found = re.match(r"/system\.slice/(?:[^/]+\.slice/)*([^/]+\.service)(?:/|$)", group)
    return found[1] if found and found[1] in gpu_daemons.UNITS else None


@dataclass(frozen=True)
class Users:
    """``strangers`` say who holds the driver and is never stopped, in words."""

    strangers: tuple[str, ...]


def users(
    openers: Sequence[Opener], modules: dict[str, Module], groups: dict[int, str], ours: frozenset[str]
) -> Users:
    """``ours`` are the containers that kpro may stop, by the names that their groups have."""
    strangers: list[str] = []
    explained: set[str] = set()
    for opener in openers:
        if not opener.target.startswith("/dev/nvidia"):
            continue
        group = groups.get(opener.pid, "")
        container = container_of(group)
        if container in ours or daemon_of(group):
            explained |= {name for name, files in _FILES.items() if re.fullmatch(files, opener.target)}
            continue
        where = f" in container {container}" if container else ""
        strangers.append(f"{opener}{where}")
        explained |= {name for name, files in _FILES.items() if re.fullmatch(files, opener.target)}
    for name, module in modules.items():
        if name not in UNLOADED:
            continue
        others = [holder for holder in module.holders if holder not in UNLOADED]
        strangers += [f"module {holder} (on {name})" for holder in others]
        if module.in_use and name not in explained:
            strangers.append(f"{name} ({module.uses} uses, {len(module.holders)} of them by modules)")
    return Users(tuple(dict.fromkeys(strangers)))
