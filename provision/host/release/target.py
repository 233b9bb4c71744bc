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


_ID = re.compile(r"\s*(?:0x)?([0-9a-f]+)((?::(?:0x)?[0-9a-f]+){1,5})", re.IGNORECASE)
_ADDRESS = re.compile(r"(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[01]?[0-9a-f]\.[0-7]", re.IGNORECASE)


def parse_id(text: str) -> tuple[int, ...] | None:
    """The numbers of one entry of a list of ids, as far as they are numbers: the kernel reads ``%x:%x:%x:%x:%x:%x`` and
    passes over what follows (drivers/vfio/pci/vfio_pci.c, ``vfio_pci_fill_ids``). None where it takes none."""
    match = _ID.match(text)
    if match is None or _ADDRESS.fullmatch(text.strip()):
        return None
    return int(match[1], 16), *(int(part, 16) for part in match[2].split(":")[1:])


def id_takes(text: str, function: PciFunction) -> bool:
    """Does ``10de:2230`` of a list of ids take this function?

    The form is ``vendor:device[:subvendor[:subdevice[:class[:class_mask]]]]`` in hex, ffffffff for any. What the
    subsystem would have to be is not looked at: it can only take less.
    """
    parts = parse_id(text)
    if parts is None:
        return False
    if len(parts) == 6 and function.pci_class and (parts[4] ^ int(function.pci_class, 16)) & parts[5]:
        return False
    return parts[0] in (int(function.vendor, 16), ANY) and parts[1] in (int(function.device, 16), ANY)


def names_ids(value: str) -> bool:
    """Is at least one entry of an ``ids=`` list an id?"""
    return any(parse_id(entry) is not None for entry in value.strip('"').split(","))


_OWN_DRIVERS = re.compile(
    r"nvidia|snd_hda_intel|xhci[_-](hcd|pci)|nvidia-gpu|i2c_nvidia_gpu|pcieport|\(null\)"
)


def other_driver(name: str) -> bool:
    """Does a ``driver_override`` of this name keep a function from the driver that it has by itself? Any other name
    does, also of a driver that there is not: ``none`` is driverctl's word for that (kernel,
    Documentation/ABI/testing/sysfs-bus-pci)."""
    return bool(name.strip()) and _OWN_DRIVERS.fullmatch(name.strip()) is None


_OPTION = re.compile(r'(\s+)("?)ids=(\S+)')
"""An option of a module on a line of words; the kernel takes quotes around it or its value (lib/cmdline.c)."""


def ids_of(line: str) -> list[str]:
    """The values of ``ids=`` on a line of options, those that hold an id."""
    return [value for match in _OPTION.finditer(line) if names_ids(value := match[3].strip('"'))]


def options_without(line: str, target: Target) -> str:
    """The same line without the target's ids; quotes around what is left stay."""

    def one(match: re.Match[str]) -> str:
        entries = match[3].strip('"').split(",")
        if not any(target.has_id(entry) for entry in entries):
            return match[0]
        kept = ",".join(entry for entry in entries if entry and not target.has_id(entry))
        inner = '"' if match[3].startswith('"') else ""
        return f"{match[1]}{match[2]}ids={inner}{kept}{inner or match[2]}" if kept else ""

    return _OPTION.sub(one, line)


def takes(value: str) -> Callable[[PciFunction], bool]:
    """What an ``ids=`` list binds."""
    entries = value.strip('"').split(",")
    return lambda function: any(id_takes(entry, function) for entry in entries)


def modalias_takes(pattern: str, function: PciFunction) -> bool:
    """Can a pattern of modaliases, ``pci:v000010DEd00002230sv*sd*bc03sc00i*``, mean this function? What the subsystem
    would have to be is not looked at: it can only take less."""
    said = {key: (re.search(rf"{key}([0-9A-F]{{8}})", pattern) or ["", "0" * 8])[1] for key in ("sv", "sd")}
    vendor, device = int(function.vendor, 16), int(function.device, 16)
    kind = f"{int(function.pci_class or '0', 16):06X}"
    alias = f"pci:v{vendor:08X}d{device:08X}sv{said['sv']}sd{said['sd']}bc{kind[:2]}sc{kind[2:4]}i{kind[4:]}"
    return fnmatchcase(alias, pattern)


def module(name: str) -> str:
    """Modules are the same with dashes and underscores."""
    return name.replace("-", "_")
