"""Containers that are given GPUs: Proxmox's <vmid>.conf and LXC's config, and what goes stale in them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from checks.snapshot import CouldNotLook, Snapshot
from provision.inspect.nodes import FIXED
from provision.inspect.report import Finding

_CONF = re.compile(r"/etc/pve/(?:nodes/([^/]+)/)?lxc/(\d+)\.conf")
_PLAIN = re.compile(r"/var/lib/lxc/([^/]+)/config")
_DEV = re.compile(r"dev(\d+):\s*(?:path=)?(/dev/nvidia[^,\s]*)(.*)")
_MOUNT = re.compile(r"lxc\.mount\.entry\s*[:=]\s*(/dev/nvidia\S*)\s")
_ALLOW = re.compile(r"lxc\.cgroup2?\.devices\.allow\s*[:=]\s*c\s+(\d+):(\S+)\s+\w+")
_SOURCE = "proxmox/pve-container, PVE/LXC.pm; jammsen/proxmox-setup-scripts#7"


@dataclass(frozen=True)
class Device:
    """A device node given to a container; ``how``: devN, or a raw line of LXC."""

    path: str
    how: str
    line: int


@dataclass(frozen=True)
class Container:
    """``majors`` are those that raw lines allow, with their lines."""

    id: str
    path: str
    text: str
    devices: tuple[Device, ...]
    majors: tuple[tuple[int, int], ...]
    snapshots_only: tuple[tuple[int, str, str], ...]
    unprivileged: bool

    def has(self, minor: int) -> bool:
        return any(device.path == f"/dev/nvidia{minor}" for device in self.devices)

    def as_dict(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "path": self.path,
            "unprivileged": self.unprivileged,
            "devices": [{"path": one.path, "how": one.how, "line": one.line} for one in self.devices],
            "raw_majors": [major for major, _ in self.majors],
        }


def containers(snapshot: Snapshot) -> tuple[Container, ...]:
    """Every configuration that was read; one that cannot be read is left to the caller's look at it."""
    found: list[Container] = []
    for path in sorted(snapshot.paths("file")):
        match = _CONF.fullmatch(path) or _PLAIN.fullmatch(path)
        if match is None:
            continue
        try:
            text = snapshot.text(path)
        except CouldNotLook:
            continue
        if text is not None and not any(
            one.text == text and one.id == match[match.lastindex or 1] for one in found
        ):
            found.append(_container(match[match.lastindex or 1], path, text))
    return tuple(found)


def _container(identity: str, path: str, text: str) -> Container:
    devices: list[Device] = []
    majors: list[tuple[int, int]] = []
    below: list[tuple[int, str, str]] = []
    above: set[str] = set()
    section = ""
    for number, line in enumerate(text.splitlines(), 1):
        head = re.fullmatch(r"\[([^\]]+)\]\s*", line)
        if head:
            section = head[1]
        elif section:
            if line.startswith("lxc."):
                below.append((number, section, line))
        else:
            above.add(line.strip())
            _read(line, number, devices, majors)
    lost = tuple(row for row in below if row[2].strip() not in above)
    unprivileged = bool(
        re.search(r"^(?:unprivileged:\s*(?:1|on|yes|true)|lxc\.idmap\s*=)", text, re.MULTILINE)
    )
    return Container(identity, path, text, tuple(devices), tuple(majors), lost, unprivileged)


def _read(line: str, number: int, devices: list[Device], majors: list[tuple[int, int]]) -> None:
    dev, mount, allow = _DEV.match(line), _MOUNT.match(line), _ALLOW.match(line)
    if dev:
        devices.append(Device(dev[2], f"dev{dev[1]}{dev[3]}", number))
    elif mount:
        devices.append(Device(mount[1], "raw bind mount", number))
    elif allow:
        majors.append((int(allow[1]), number))


def findings(found: Sequence[Container], numbers: Mapping[str, int] | None) -> Iterator[Finding]:
    """``numbers``: the majors of the machine by name, None where they are not known."""
    for container in found:
        yield from _stale(container, numbers)
        if container.snapshots_only:
            lines = ", ".join(
                f"{container.path}:{number}: {line.strip()}" for number, _, line in container.snapshots_only
            )
            section = container.snapshots_only[0][1]
            yield Finding(
                "container.snapshot-trap",
                "problem",
                f"container {container.id}",
                lines,
                f"the lines stand below [{section}] and belong to that snapshot: the current configuration lacks them",
                "put them above the first line that begins with [",
                "proxmox/pve-container, PVE/LXC/Config.pm",
            )
        for device in container.devices:
            plain = re.fullmatch(r"dev\d+(.*)", device.how)
            if plain and "mode=" not in plain[1]:
                yield Finding(
                    "container.mode",
                    "note",
                    f"container {container.id}",
                    f"{container.path}:{device.line}: {device.path} without a mode",
                    "the node is 0660 root:root inside: a service that is not root cannot open it",
                    f"pct set {container.id} -{device.how.split(',')[0]} {device.path},mode=0666",
                    _SOURCE,
                )


def _stale(container: Container, numbers: Mapping[str, int] | None) -> Iterator[Finding]:
    known = {number: name for name, number in (numbers or {}).items()}
    for major, line in container.majors:
        if major == FIXED or not (234 <= major <= 254 or 384 <= major <= 511):
            continue
        now = f"it is {known[major]} now" if major in known else "no driver has it now"
        where = f"{container.path}:{line}"
        yield Finding(
            "container.stale-major",
            "problem",
            f"container {container.id}",
            f"{where}: major {major} written down" + (f", and {now}" if numbers is not None else ""),
            "majors other than 195 are dealt out anew by each kernel and driver (nvidia-uvm: 508, 509, 511 seen): "
            "after the next boot the container may be refused, CUDA ends with 999",
            "give the nodes by devN, which reads the number at each start: "
            f"pct set {container.id} -devN /dev/nvidia-uvm,mode=0666",
            _SOURCE,
        )
