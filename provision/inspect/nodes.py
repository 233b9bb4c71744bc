"""The device nodes of the GPUs and the numbers of their drivers. Pure.

``ls -l`` gives ``crw-rw-rw- 1 root root 195, 0 DATE /dev/nvidia0`` (the bare name below a heading ``/dev/x:``),
``stat -c "%n %t %T %F"`` gives ``/dev/nvidia0 c3 0 character special file`` with the numbers in hex.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from checks.snapshot import CouldNotLook
from provision.host import view
from provision.inspect.look import Look
from provision.inspect.report import Finding
from provision.inspect.texts import Texts

_LS = re.compile(
    r"([bcdlps-])([rwxsStT-]{9})\S*\s+\d+\s+(\S+)\s+(\S+)\s+(?:(\d+),\s*(\d+)|\d+)\s.*?\s(\S*nvidia\S*)"
)
FIXED = 195
"""The major of /dev/nvidiaN and nvidiactl (kernel, Documentation/admin-guide/devices.txt); all others are dynamic."""


@dataclass(frozen=True)
class Node:
    """``major`` and ``minor`` None: it is no device."""

    path: str
    major: int | None
    minor: int | None
    mode: str = ""

    def as_dict(self) -> dict[str, object]:
        return {
            "path": self.path,
            "major": self.major,
            "minor": self.minor,
            "mode": self.mode or "unknown",
            "number": self.number,
        }

    @property
    def number(self) -> str:
        """Does its major stay the same?"""
        if self.major is None:
            return "no device"
        return "fixed" if self.major == FIXED else "dynamic"


def majors(look: Look) -> dict[str, int]:
    """Character device majors by name. Raises CouldNotLook."""
    look.needed("/proc/devices")
    return view.majors(look.snapshot)


def nodes(texts: Texts) -> tuple[Node, ...]:
    """Raises CouldNotLook when they were not listed."""
    found: dict[str, Node] = {}
    for output in texts.needed("device-nodes"):
        for one in (*_of_ls(output.text), *_of_stat(output.text)):
            found.setdefault(one.path, one)
    return tuple(found.values())


def _of_ls(text: str) -> Iterator[Node]:
    folder = "/dev"
    for line in text.splitlines():
        heading = re.fullmatch(r"(/dev\S*):", line.strip())
        if heading:
            folder = heading[1]
            continue
        match = _LS.match(line.lstrip())
        if match:
            path = match[7] if match[7].startswith("/") else f"{folder}/{match[7]}"
            yield Node(path, *_numbers(match[5], match[6]), match[1] + match[2])


def _numbers(major: str | None, minor: str | None) -> tuple[int | None, int | None]:
    return (int(major), int(minor)) if major and minor else (None, None)


def _of_stat(text: str) -> Iterator[Node]:
    for line in text.splitlines():
        match = re.fullmatch(r"(/dev/nvidia\S*) ([0-9a-f]+) ([0-9a-f]+) (.+)", line.strip())
        if match:
            is_device = match[4].startswith("character")
            yield Node(match[1], *((int(match[2], 16), int(match[3], 16)) if is_device else (None, None)))


def findings(found: tuple[Node, ...], numbers: dict[str, int] | None) -> Iterator[Finding]:
    """What is missing or wrong among the nodes; ``numbers`` are the majors, None where they are not known."""
    there = {node.path: node for node in found}
    gpus = [path for path in there if re.fullmatch(r"/dev/nvidia\d+", path)]
    for node in found:
        if node.major is None and not node.mode.startswith(("d", "l")):
            yield Finding(
                "nodes.file",
                "problem",
                node.path,
                "a plain file is where the device node belongs",
                "a container would be given it in place of the GPU",
                f"find out who made it, then: rm {node.path}",
                "tteck/Proxmox#3758",
            )
    if gpus and not {"/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"} <= there.keys():
        yield Finding(
            "nodes.uvm",
            "problem",
            "host",
            f"{', '.join(sorted(gpus))} without /dev/nvidia-uvm",
            "nvidia-smi works and CUDA does not: cuInit ends with 999 (unless an Xid 79 or 154 asks for a reboot)",
            "nvidia-modprobe -u -c 0, and a unit that makes the nodes before guests start",
            "community-scripts/ProxmoxVE#5740, ollama#1895",
        )
    for path, name in (("/dev/nvidia-uvm", "nvidia-uvm"), ("/dev/nvidia0", "nvidia")):
        at = there.get(path)
        expected = (numbers or {}).get(name)
        if at is not None and expected is not None and at.major not in (None, expected):
            yield Finding(
                "nodes.major",
                "problem",
                path,
                f"it has major {at.major}, /proc/devices gives {expected} to {name}",
                "opening it fails: the number moved when the module was loaded anew",
                f"rm {path}, then: nvidia-modprobe {'-u -c 0' if 'uvm' in path else '-c 0'}",
                "NVIDIA/nvidia-modprobe",
            )


def dynamic(numbers: dict[str, int]) -> dict[str, str]:
    """Which majors are NVIDIA's, and which of them stay."""
    return {
        name: f"{number} ({'fixed' if number == FIXED else 'dynamic: read it, never write it down'})"
        for name, number in sorted(numbers.items())
        if name.startswith("nvidia")
    }


def needed(look: Look) -> dict[str, int]:
    found = majors(look)
    if not found:
        raise CouldNotLook("/proc/devices has no character device")
    return found
