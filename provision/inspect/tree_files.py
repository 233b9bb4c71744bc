"""From a snapshot to the files of a recorded tree that gives the same snapshot again. Pure.

What was absent is listed in ``.kpro/absent``, so that it is not taken for unknown. What was there and could not be read
becomes a folder of its name, which cannot be read as a file either. Digests and owners of files that are not copied lie
in ``.kpro/sha`` and ``.kpro/stat``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from checks.snapshot import Section, Snapshot

CMD = "/.kpro/cmd/"
PCI = "/sys/bus/pci/devices"
_LINKED = "/.kpro/linked"

Clean = Callable[[str, bytes], bytes]


@dataclass(frozen=True)
class Entry:
    """``data``: of a file; the target of a link; empty for a folder. ``touch``: a file whose content does not matter,
    made only where nothing else is."""

    path: str
    kind: Literal["file", "folder", "link", "touch"]
    data: bytes = b""


def is_safe(path: str) -> bool:
    """A path that stays inside the tree it is written to: the machine that sent it may be hostile."""
    return path.startswith("/") and "\0" not in path and ".." not in path.split("/") and path.strip("/") != ""


def entries(snapshot: Snapshot, clean: Clean) -> tuple[list[Entry], list[str]]:
    """What to write, in this order, and what cannot be recorded, in words. Links come after what has content."""
    found: list[Entry] = []
    lost: list[str] = []
    absent: list[str] = []
    tools: list[str] = []
    for section in snapshot.sections.values():
        if section.kind == "tool":
            tools += [section.path] if section.data is not None else []
        elif section.kind in ("pci", "cmd", "rc"):
            found += _of_bus(section) if section.kind == "pci" else _of_command(section, clean)
        elif section.kind == "linked":
            continue
        elif not is_safe(section.path):
            lost.append(f"{section.path}: its name leads out of the tree")
        elif section.error is not None:
            lost.append(f"{section.path}: {section.error}")
            found += [Entry(section.path, "folder")] if section.kind == "file" else []
        elif section.data is None or (section.kind == "names" and not section.data.strip()):
            absent.append(section.path)
        else:
            found += _of(section, snapshot, clean)
    found.append(Entry(f"{CMD}tools.out", "file", "".join(f"{tool}\n" for tool in sorted(tools)).encode()))
    there = {entry.path for entry in found}
    gone = sorted({path for path in absent if path not in there})
    found.append(
        Entry("/.kpro/absent", "file", "".join(f"{path}\n" for path in gone).encode(errors="replace"))
    )
    order = {"file": 0, "folder": 1, "link": 2, "touch": 3}
    return sorted(found, key=lambda entry: order[entry.kind]), lost


def _of(section: Section, snapshot: Snapshot, clean: Clean) -> Iterator[Entry]:
    path, data = section.path, section.data or b""
    if section.kind == "file":
        if ("link", path) in snapshot.sections and snapshot.sections["link", path].data is not None:
            return
        if ("linked", path) in snapshot.sections:
            yield Entry(_LINKED + path, "file", clean(path, data))
            yield Entry(
                path, "link", _up(path) + (_LINKED + path).lstrip("/").encode(errors="surrogateescape")
            )
        else:
            yield Entry(path, "file", clean(path, data))
    elif section.kind in ("sha", "stat"):
        yield Entry(f"/.kpro/{section.kind}{path}", "file", data)
    elif section.kind == "link":
        yield Entry(path, "link", data.rstrip(b"\n"))
    elif section.kind == "dir":
        yield Entry(path, "folder")
        for name in data.decode(errors="surrogateescape").splitlines():
            if name and "/" not in name and name not in (".", ".."):
                yield Entry(f"{path}/{name}", "touch")
    elif section.kind in ("names", "vms"):
        for name in data.decode(errors="surrogateescape").splitlines():
            one = f"/etc/pve/nodes/{name}" if section.kind == "vms" else name
            if name and is_safe(one):
                folder = section.kind == "vms" or one.startswith("/lib/modules/")
                yield Entry(one, "folder" if folder else "touch")
        if section.kind == "vms":
            yield Entry(path, "folder")


def _up(path: str) -> bytes:
    """From a link's own folder to the top of the tree."""
    return b"../" * (path.count("/") - 1)


def _of_command(section: Section, clean: Clean) -> Iterator[Entry]:
    name = section.path
    # A name may hold a folder: it lies below .kpro/cmd, where the script of the snapshot looks for it.
    if section.data is None or not is_safe(CMD + name):
        return
    if section.kind == "rc":
        yield Entry(f"{CMD}{name}.rc", "file", section.data)
    else:
        yield Entry(f"{CMD}{name}.out", "file", clean(name, section.data))


_DRIVERS, _GROUPS = "/sys/bus/pci/drivers", "/sys/kernel/iommu_groups"


def _of_bus(section: Section) -> Iterator[Entry]:
    """The small files and links of sysfs that the look at a PCI function reads, in sysfs's own shape."""
    if section.path == PCI:
        yield from _of_displays(section.data)
        return
    if section.data is None or "/" in section.path or not is_safe("/" + section.path):
        return
    bdf = section.path
    home = f"/sys/devices/pci/{bdf}"
    yield Entry(f"{PCI}/{bdf}", "link", f"../../../devices/pci/{bdf}".encode())
    pairs = dict(
        line.partition("=")[::2] for line in section.data.decode(errors="replace").splitlines() if "=" in line
    )
    for key, value in pairs.items():
        if key == "driver" and _is_name(value):
            yield Entry(f"{home}/driver", "link", f"../../..{_DRIVERS.removeprefix('/sys')}/{value}".encode())
            yield Entry(f"{_DRIVERS}/{value}", "folder")
        elif key == "group" and _is_name(value):
            yield Entry(f"{home}/iommu_group", "link", f"../../../kernel/iommu_groups/{value}".encode())
            yield Entry(f"{_GROUPS}/{value}/devices/{bdf}", "link", f"../../../../devices/pci/{bdf}".encode())
        elif key == "config" and value.strip():
            yield Entry(f"{home}/config", "file", bytes.fromhex(value))
        elif key == "bar1" and value.strip():
            yield Entry(f"{home}/resource", "file", f"0x0 0x0 0x0\n{value}\n".encode())
        elif key == "vfio_dev" and _is_name(value):
            yield Entry(f"{home}/vfio-dev/{value}", "folder")
        elif key not in ("driver", "group", "config", "bar1", "vfio_dev") and value and _is_name(key):
            yield Entry(f"{home}/{key}", "file", f"{value}\n".encode())


def _of_displays(data: bytes | None) -> Iterator[Entry]:
    """The list of screens, ``BDF VENDOR BOOT_VGA``: of another maker than NVIDIA there is no more."""
    if data is None:
        return
    yield Entry(PCI, "folder")
    for line in data.decode(errors="replace").splitlines():
        words = line.split()
        if len(words) == 3 and _is_name(words[0]):
            home = f"/sys/devices/pci/{words[0]}"
            yield Entry(f"{PCI}/{words[0]}", "link", f"../../../devices/pci/{words[0]}".encode())
            yield Entry(f"{home}/vendor", "file", f"{words[1]}\n".encode())
            yield Entry(f"{home}/boot_vga", "file", f"{words[2]}\n".encode())


def _is_name(text: str) -> bool:
    return bool(text) and "/" not in text and text not in (".", "..") and "\0" not in text
