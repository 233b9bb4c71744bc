"""What is to be released, and what a holder is. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from provision.host.view import PciFunction

MARK = "# kpro: "
"""Before a line that was taken out, in formats that have comments."""

ANY = 0xFFFFFFFF
"""PCI_ANY_ID of the kernel."""

BINDERS = ("vfio_pci", "pci_stub")
"""Modules that take the functions of the ids they are given, and do nothing else with them."""

EARLY_VFIO = (*BINDERS, "vfio", "vfio_pci_core", "vfio_iommu_type1", "vfio_virqfd")
"""What is loaded, or run in place of, to take functions before others do. By itself it takes none."""


@dataclass(frozen=True)
class Target:
    """The functions to release. ``keeping``: another NVIDIA GPU stays with virtual machines, so that what only orders
    the loading of modules stays too. ``others``: so do devices of other makers, by their ids, so that what orders the
    drivers of sound and USB stays."""

    functions: tuple[PciFunction, ...]
    keeping: bool = False
    others: bool = False

    def has_id(self, text: str) -> bool:
        """Does one entry of an ``ids=`` list take one of the functions?"""
        return any(id_takes(text, function) for function in self.functions)


@dataclass(frozen=True)
class Holder:
    """A place of the boot configuration that hands functions to virtual machines, or keeps NVIDIA's driver away.

    ``holds`` says of a function whether it is bound by this place; what only keeps the driver away binds none.
    ``instead`` is the next step for the operator where kpro does not edit the place.
    """

    path: str
    line: int
    text: str
    what: str
    holds: Callable[[PciFunction], bool]
    instead: str | None = None

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text.strip()}"


def nothing(function: PciFunction) -> bool:
    """For a place that binds no function by itself."""
    return False


def id_takes(text: str, function: PciFunction) -> bool:
    """Does ``10de:2230`` of a list of ids take this function?

    The form is ``vendor:device[:subvendor[:subdevice[:class[:class_mask]]]]`` in hex, ffffffff for any (kernel,
    drivers/vfio/pci: ``ids``). What follows the device is not looked at: it can only take less.
    """
    parts = text.strip().split(":")
    try:
        vendor, device = int(parts[0], 16), int(parts[1], 16)
    except (ValueError, IndexError):
        return False
    return vendor in (int(function.vendor, 16), ANY) and device in (int(function.device, 16), ANY)


def without_ids(value: str, target: Target) -> str:
    """An ``ids=`` list without those of the target; quotes around it stay."""
    quote = '"' if value[:1] == '"' else ""
    kept = [entry for entry in value.strip('"').split(",") if entry and not target.has_id(entry)]
    return f"{quote}{','.join(kept)}{quote}" if kept else ""


def takes(value: str) -> Callable[[PciFunction], bool]:
    """What an ``ids=`` list binds."""
    entries = value.strip('"').split(",")
    return lambda function: any(id_takes(entry, function) for entry in entries)


def modalias_takes(pattern: str, function: PciFunction) -> bool:
    """Can a pattern of modaliases, ``pci:v000010DEd00002230sv*sd*bc*sc*i*``, mean this function? What follows the
    device is not looked at: it can only take less."""
    head = re.split(r"sv", pattern, maxsplit=1)[0]
    vendor, device = int(function.vendor, 16), int(function.device, 16)
    alias = f"pci:v{vendor:08X}d{device:08X}"
    return fnmatchcase(alias, head) or (head.endswith("*") and fnmatchcase(alias + "sv", head))


def module(name: str) -> str:
    """Modules are the same with dashes and underscores."""
    return name.replace("-", "_")
