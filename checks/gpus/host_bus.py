"""How the GPUs hang on the PCI bus: the bridges above each, what those redirect (ACS), IOMMU, switches, NUMA.

``look`` observes, ``parse`` types the sections of any record.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from checks.bdf import Bdf
from checks.gpus.host_read import By, file, kept, link, listing, made, text
from checks.record import Section

PCI = "/sys/bus/pci/devices"
GROUPS, CLASS = "/sys/kernel/iommu_groups", "/sys/class/iommu"
CMDLINE, CPU, MODULES, RDMA = "/proc/cmdline", "/proc/cpuinfo", "/proc/modules", "/sys/class/infiniband"
RELEASE = "/proc/sys/kernel/osrelease"
SWITCH_CLASS = "0x0680"
ACS_CAPABILITY, CONFIG_SIZE = 0x000D, 4096
REQUEST_REDIRECT, COMPLETION_REDIRECT = 0x0004, 0x0008
"""Bits of the ACS control register (PCI Express Base Specification, 7.7.11.3)."""

_SHORT = "the extended configuration space is for root: run it as root"
_ABOUT_IOMMU = re.compile(r"^(?:intel_iommu|amd_iommu|iommu(?:\.\w+)?|pci|pcie_acs_override|nokaslr)(?:=|$)")
_OURS = re.compile(r"^(?:nvidia\w*|nv_peer_mem|gdrdrv|vfio_pci) ")
_BDF = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


@dataclass(frozen=True)
class Port:
    """A bridge on the way to a GPU. ``control``: its ACS control register, None where it has no ACS or ``error``
    says why it could not be read."""

    bdf: str
    control: int | None = None
    error: str | None = None

    @property
    def redirects(self) -> bool:
        return self.control is not None and bool(self.control & (REQUEST_REDIRECT | COMPLETION_REDIRECT))


@dataclass(frozen=True)
class Bus:
    """``ports`` by GPU, from the root port down, None: the way was not looked at. ``groups``: type of each GPU's
    IOMMU group (``DMA``, ``identity`` ...), None when it is in no group; a GPU that was not looked at is not in it.
    ``virtual``: is this a virtual machine, None: not looked at. ``rdma``: devices whose port is up; ``infiniband``:
    those that are no Ethernet. ``kernel``: first two numbers of its release."""

    ports: dict[Bdf, tuple[Port, ...]] = field(default_factory=dict)
    groups: dict[Bdf, str | None] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    virtual: bool | None = None
    modules: frozenset[str] | None = None
    rdma: tuple[str, ...] = ()
    infiniband: tuple[str, ...] = ()
    kernel: tuple[int, int] | None = None
    cpus: dict[Bdf, frozenset[int]] = field(default_factory=dict)


def look(root: str, gpus: Iterable[str]) -> Iterator[Section]:
    """``gpus``: names of the GPUs in /sys/bus/pci/devices. Without one, nothing is looked at."""
    names = list(gpus)
    if not names:
        return
    yield options(file(root, CMDLINE))
    yield flags(file(root, CPU))
    yield kept(file(root, MODULES, 1 << 18), lambda line: _OURS.match(line) is not None)
    yield from _rdma(root)
    yield file(root, RELEASE)
    bridges: dict[str, None] = {}
    for name in names:
        at = f"{PCI}/{name}"
        way = made("path", at, lambda at=at: _way(root + at))  # type: ignore[misc]
        yield way
        group = link(root, f"{at}/iommu_group")
        yield group
        if group.data is not None:
            yield file(root, f"{GROUPS}/{group.data.decode(errors='replace').rsplit('/', 1)[-1]}/type")
        yield file(root, f"{at}/numa_node")
        yield file(root, f"{at}/local_cpulist")
        bridges.update(dict.fromkeys((way.data or b"").decode().split()[:-1]))
    for bridge in bridges:
        yield _acs(root, bridge)


def options(section: Section) -> Section:
    """The words of the kernel's command line that bear on IOMMU and PCI; the others are nobody's business."""
    if section.data is None:
        return section
    words = section.data.decode(errors="replace").split()
    return Section(section.kind, section.path, " ".join(filter(_ABOUT_IOMMU.match, words)).encode())


def flags(section: Section) -> Section:
    """Of /proc/cpuinfo only whether the processor says that it is virtual."""
    if section.data is None:
        return section
    virtual = re.search(rb"^flags\s*:.*\bhypervisor\b", section.data, re.MULTILINE) is not None
    return Section(section.kind, section.path, b"hypervisor\n" if virtual else b"")


def _rdma(root: str) -> Iterator[Section]:
    cards = listing(root, RDMA)
    yield cards
    for name in (cards.data or b"").decode(errors="replace").split():
        yield file(root, f"{RDMA}/{name}/ports/1/state")
        yield file(root, f"{RDMA}/{name}/ports/1/link_layer")


def _way(path: str) -> bytes:
    """The devices from the root port down to this one."""
    return " ".join(_BDF.findall(str(Path(path).resolve(strict=True)))).encode()


def _acs(root: str, bridge: str) -> Section:
    at = f"{PCI}/{bridge}"
    config = file(root, f"{at}/config", CONFIG_SIZE)
    if config.data is None:
        return Section("acs", at, None, config.error or "it has no configuration space")
    return acs_section(at, config.data)


def acs_section(at: str, config: bytes) -> Section:
    """``control 0x001d``, or ``none`` where the port has no ACS. Short bytes: an error, for they prove nothing."""
    if len(config) < CONFIG_SIZE:
        return Section("acs", at, None, _SHORT)
    control = acs_control(config)
    return Section("acs", at, b"none\n" if control is None else f"control {control:#06x}\n".encode())


def acs_control(config: bytes) -> int | None:
    """The ACS control register in a whole extended configuration space (4096 bytes), None without ACS."""
    offset, seen = 0x100, set()
    while 0x100 <= offset <= CONFIG_SIZE - 8 and offset not in seen:
        seen.add(offset)
        (header,) = struct.unpack_from("<I", config, offset)
        if header in (0, 0xFFFFFFFF):
            return None
        if header & 0xFFFF == ACS_CAPABILITY:
            return int(struct.unpack_from("<H", config, offset + 6)[0])
        offset = header >> 20 & 0xFFC
    return None


def parse(by: By, gpus: Iterable[Bdf]) -> Bus:
    ports: dict[Bdf, tuple[Port, ...]] = {}
    groups: dict[Bdf, str | None] = {}
    cpus: dict[Bdf, frozenset[int]] = {}
    for bdf in gpus:
        at = f"{PCI}/{bdf}"
        way = text(by, "path", at)
        if way is not None:
            ports[bdf] = tuple(_port(by, name) for name in way.split()[:-1])
        group = by.get(("link", f"{at}/iommu_group"))
        if group is not None and group.error is None:
            groups[bdf] = _type(by, group)
        local = text(by, "file", f"{at}/local_cpulist")
        if local is not None and local.strip():
            cpus[bdf] = numbers(local)
    processor, cards = text(by, "file", CPU), text(by, "dir", RDMA)
    modules = text(by, "file", MODULES)
    active = tuple(name for name in (cards or "").split() if _active(by, name))
    layers = {name: text(by, "file", f"{RDMA}/{name}/ports/1/link_layer") or "InfiniBand" for name in active}
    release = re.match(r"(\d{1,3})\.(\d{1,3})", text(by, "file", RELEASE) or "")
    return Bus(
        ports,
        groups,
        tuple((text(by, "file", CMDLINE) or "").split()),
        None if processor is None else "hypervisor" in processor,
        None
        if modules is None
        else frozenset(line.split()[0] for line in modules.splitlines() if line.strip()),
        active,
        tuple(name for name, layer in layers.items() if "InfiniBand" in layer),
        (int(release[1]), int(release[2])) if release else None,
        cpus,
    )


def _port(by: By, name: str) -> Port:
    section = by.get(("acs", f"{PCI}/{name}"))
    if section is None or section.data is None:
        return Port(name, error=(section.error if section else None) or "it is not in the evidence")
    found = re.search(rb"control 0x([0-9a-f]{1,4})\b", section.data)
    return Port(name, int(found[1], 16) if found else None)


def _type(by: By, group: Section) -> str | None:
    if group.data is None:
        return None
    number = group.data.decode(errors="replace").rsplit("/", 1)[-1].strip()
    return (text(by, "file", f"{GROUPS}/{number}/type") or "of unknown type").strip() if number else None


def _active(by: By, name: str) -> bool:
    """A card whose port is down is not in use; one whose state was not read may be."""
    state = text(by, "file", f"{RDMA}/{name}/ports/1/state")
    return state is None or "ACTIVE" in state


def numbers(ranges: str) -> frozenset[int]:
    """``0-3,8`` as a set; what is no range counts for nothing. No machine has more than 8192 processors."""
    found: set[int] = set()
    for first, last in re.findall(r"(\d{1,5})(?:-(\d{1,5}))?", ranges[:4096]):
        found.update(range(int(first), min(int(last or first), int(first) + 8191) + 1))
    return frozenset(found)
