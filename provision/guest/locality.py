"""Which processors and memory lie beside a guest's GPUs: what its cpuset is to hold. Pure.

A GPU's node is in sysfs (``numa_node``, -1 where the firmware does not say). Both backends write what is decided here:
Proxmox gives a container a random cpuset, unless its file has ``lxc.cgroup2.cpuset.cpus``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from checks.bdf import Bdf
from checks.snapshot import CouldNotLook, Snapshot
from provision.spec import Guest

NODES = "/sys/devices/system/node"
UNIFIED = "/sys/fs/cgroup/cgroup.controllers"
LEGACY = "/sys/fs/cgroup/cpuset/cpuset.cpus"
CGROUP_REQUESTS = (f"file:{UNIFIED}", f"file:{LEGACY}")

Cgroup = Literal["cgroup2", "cgroup"]


@dataclass(frozen=True)
class Locality:
    """``cpus`` and ``mems`` in the kernel's list format (cpuset(7): ``0-15,32-47``); "" is no line. ``note`` says why a
    guest that could gain from it is not kept to its node, "" where there is nothing to say."""

    cpus: str = ""
    mems: str = ""
    note: str = ""


@dataclass(frozen=True)
class _Node:
    number: int
    cpus: frozenset[int]
    kib: int


def requests(guest: Guest) -> list[str]:
    """What the snapshot of the machine has to look at for this guest."""
    if not guest.gpus or guest.numa == "any":
        return []
    return [
        *(f"file:{_numa_node(bdf)}" for bdf in guest.gpus),
        f"glob:{NODES}/node*/cpulist",
        f"glob:{NODES}/node*/meminfo",
        *CGROUP_REQUESTS,
    ]


def locality(snapshot: Snapshot, guest: Guest) -> Locality:
    """The processors and memory of the nodes that the guest's GPUs are on. Nothing where the machine has one node only,
    where no GPU's node is known, or where the guest is to run anywhere (``numa="any"``).

    What cannot be read gives no line, and a note: a cpuset only makes a guest faster. Nodes without processors or
    without memory are left out, for the kernel takes neither.
    """
    if not guest.gpus or guest.numa == "any":
        return Locality()
    try:
        nodes = _nodes(snapshot)
        places = {bdf: _place(snapshot, bdf) for bdf in guest.gpus}
    except CouldNotLook as error:
        return Locality(note=f"{guest.name} is not kept to the NUMA node of its GPUs: {error}")
    if len(nodes) < 2:
        return Locality()
    lost = [bdf for bdf, place in places.items() if place not in nodes]
    if lost:
        return Locality(
            note=f"{guest.name} is not kept to a NUMA node: the firmware does not say which one "
            f"{', '.join(lost)} is on"
        )
    mine = [nodes[number] for number in sorted({place for place in places.values() if place is not None})]
    if len(mine) == len(nodes):
        return Locality()
    cpus = list_text(cpu for node in mine for cpu in node.cpus)
    mems = list_text(node.number for node in mine if node.kib)
    named = ", ".join(str(node.number) for node in mine)
    if not cpus:
        return Locality(note=f"{guest.name} is not kept to NUMA node {named}: it has no processors")
    if not mems:
        return Locality(cpus, "", f"{guest.name} takes memory anywhere: NUMA node {named} has none")
    return Locality(cpus, mems)


def cgroup(snapshot: Snapshot) -> Cgroup | None:
    """The hierarchy that has the cpuset controller: ``cgroup2`` (unified), ``cgroup`` (version 1, also beside an empty
    unified one), None where neither can be seen. LXC passes over a line for the other one, in silence."""
    try:
        controllers = snapshot.text(UNIFIED)
        legacy = snapshot.text(LEGACY)
    except CouldNotLook:
        return None
    if controllers is not None and "cpuset" in controllers.split():
        return "cgroup2"
    return "cgroup" if legacy is not None else None


def list_text(numbers: Iterable[int]) -> str:
    """Numbers in the kernel's list format: ``0-3,8``."""
    spans: list[list[int]] = []
    for number in sorted(set(numbers)):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)


def parse_list(text: str) -> frozenset[int]:
    """Reads the kernel's list format, as ``cpulist`` has it. Raises ValueError on anything else."""
    numbers: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        found = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
        if found is None or (found[2] and int(found[2]) < int(found[1])):
            raise ValueError(f"{text.strip()!r} is no list of numbers")
        numbers.update(range(int(found[1]), int(found[2] or found[1]) + 1))
    return frozenset(numbers)


def _numa_node(bdf: str) -> str:
    return f"/sys/bus/pci/devices/{Bdf.parse(bdf)}/numa_node"


def _place(snapshot: Snapshot, bdf: str) -> int | None:
    """The GPU's node; None where the firmware or a kernel without NUMA does not say."""
    text = snapshot.text(_numa_node(bdf))
    if text is None or text.strip() == "-1":
        return None
    if not text.strip().isdecimal():
        raise CouldNotLook(f"{_numa_node(bdf)} says {text.strip()[:40]!r}")
    return int(text)


def _nodes(snapshot: Snapshot) -> dict[int, _Node]:
    """The machine's nodes that have processors or memory."""
    found = {}
    for path in snapshot.paths("file"):
        match = re.fullmatch(rf"{NODES}/node(\d+)/cpulist", path)
        if match is None:
            continue
        number, meminfo = int(match[1]), snapshot.text(f"{NODES}/node{match[1]}/meminfo")
        total = re.search(r"MemTotal:\s*(\d+) kB", meminfo or "")
        try:
            cpus = parse_list(snapshot.text(path) or "")
        except ValueError as error:
            raise CouldNotLook(f"{path}: {error}") from error
        if total is None:
            raise CouldNotLook(f"{NODES}/node{number}/meminfo has no MemTotal")
        node = _Node(number, cpus, int(total[1]))
        if node.cpus or node.kib:
            found[number] = node
    return found
