"""Proxmox's resource mappings, ``/etc/pve/mapping/pci.cfg`` (pve-guest-common, PVE/Mapping/PCI.pm). Pure.

A mapping begins with its name in column 0; what belongs to it is indented. Each ``map`` line is one device on one node:
``map id=10de:2230,iommugroup=25,node=pve,path=0000:42:00.0;0000:42:00.1``. A machine that asks for the mapping gets any
of those of the node that it starts on.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from provision.host.vms.address import PciAddress, addresses
from provision.host.vms.grammar import pairs


@dataclass(frozen=True)
class Mapped:
    """One ``map`` line. ``wrong`` says why it names no device, where that is so."""

    mapping: str
    node: str
    addresses: tuple[PciAddress, ...]
    line: int
    wrong: str | None = None


def mappings(text: str) -> dict[str, tuple[Mapped, ...]]:
    """The devices of each mapping, by its name. One that has none is there with an empty tuple."""
    found: dict[str, tuple[Mapped, ...]] = {}
    name = None
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if not line[0].isspace():
            name = line.split()[-1]
            found.setdefault(name, ())
            continue
        match = re.fullmatch(r"\s+map\s+(.*\S)\s*", line)
        if match is not None and name is not None:
            found[name] = (*found[name], _mapped(name, match[1], number))
    return found


def _mapped(name: str, value: str, number: int) -> Mapped:
    said = dict(pairs(value, "id"))
    node = said.get("node", "")
    try:
        devices = addresses(said.get("path", ""))
    except ValueError as error:
        return Mapped(name, node, (), number, str(error))
    return Mapped(name, node, devices, number, None if devices else "it has no path")
