"""lspci's listings in all their spellings: -k, -nn, -n, -D, one by one or gathered by IOMMU group. Pure.

A line of a function is ``[DOMAIN:]BUS:SLOT.FUNCTION CLASS [CODE]: NAME [VENDOR:DEVICE] (rev NN)`` (lspci(8)); without
``-nn`` there are only names, with ``-n`` only numbers. What belongs to it follows on lines that begin with a blank.
Listings of IOMMU groups put ``IOMMU Group N`` before each line, or above the lines of a group.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from checks.bdf import Bdf

CLASSES = {
    "VGA compatible controller": "0300",
    "XGA compatible controller": "0301",
    "3D controller": "0302",
    "Display controller": "0380",
    "Multimedia audio controller": "0401",
    "Audio device": "0403",
    "USB controller": "0c03",
    "Serial bus controller": "0c80",
    "Host bridge": "0600",
    "ISA bridge": "0601",
    "PCI bridge": "0604",
    "Bridge": "0680",
}
"""The names of classes in pci.ids that matter here."""

_ADDRESS = r"(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
_HEAD = re.compile(rf"\s*(?:IOMMU [Gg]roup:? (\S+?):?\s+)?({_ADDRESS})\s+(\S.*)")
_GROUP = re.compile(r"\s*IOMMU [Gg]roup:? (\d+):?\s*")
_USED = re.compile(r"Kernel driver in use:\s*(\S+)")
_MODULES = re.compile(r"Kernel modules:\s*(\S.*)")
_UNNAMED = re.compile(r"NVIDIA Corporation Device ([0-9a-f]{4})")
"""What lspci prints of a function that its pci.ids does not have: the id stands in place of the name."""

_DRIVER = re.compile(r"\(driver: ([^)\s]+)\)")


@dataclass(frozen=True)
class Listed:
    """A function as lspci lists it. Ids and class are in hex without 0x, None where the listing has only names;
    ``driver`` is None when it has none; ``driver_told``: does the listing tell drivers at all? ``modules`` are those
    that could drive it."""

    bdf: Bdf
    class_code: str | None
    class_name: str | None
    vendor: str | None
    device: str | None
    name: str
    driver: str | None = None
    driver_told: bool = False
    modules: tuple[str, ...] = ()
    group: str | None = None

    @property
    def is_nvidia(self) -> bool:
        return self.vendor == "10de" if self.vendor else self.name.startswith("NVIDIA Corporation")


def is_listing(text: str) -> bool:
    """Does a text hold at least one line of a PCI function?"""
    return any(_function(line) is not None for line in text.splitlines())


def parse(text: str, tells_drivers: bool = False) -> tuple[Listed, ...]:
    """The functions in their order. ``tells_drivers``: the listing was made with ``-k``; else it is taken for one where
    it names the driver or the modules of any function."""
    found: list[Listed] = []
    group = None
    for line in text.splitlines():
        above = _GROUP.fullmatch(line)
        if above:
            group = above[1]
            continue
        function = _function(line)
        if function is not None:
            found.append(replace(function, group=function.group or group))
        elif found and line[:1] in (" ", "\t"):
            found[-1] = _with_detail(found[-1], line)
    told = tells_drivers or any(one.driver or one.modules for one in found)
    return tuple(replace(one, driver_told=told) for one in found)


def _function(line: str) -> Listed | None:
    head = _HEAD.fullmatch(line.rstrip())
    if head is None:
        return None
    try:
        bdf = Bdf.parse(head[2])
    except ValueError:
        return None
    rest = head[3]
    driver = _DRIVER.search(rest)
    rest = _DRIVER.sub("", rest)
    rest = re.sub(r"\s*\((?:rev|prog-if) [^)]*\)", "", rest).strip()
    numbers = re.fullmatch(r"(?:Class )?([0-9a-f]{4}): ([0-9a-f]{4}):([0-9a-f]{4})", rest)
    if numbers:
        return Listed(bdf, numbers[1], None, numbers[2], numbers[3], "", _name(driver), group=head[1])
    what, colon, name = rest.partition(": ")
    if not colon:
        return None
    code = re.fullmatch(r"(.*?)\s*\[([0-9a-f]{4})\]", what)
    kind = code[1] if code else what
    if not code and not kind[:1].isupper() and kind not in CLASSES:
        # Every class of pci.ids but "3D controller" begins with a capital: a program says this of an address.
        return None
    ids = re.search(r"\s*\[([0-9a-f]{4}):([0-9a-f]{4})\]$", name)
    unnamed = _UNNAMED.fullmatch(name)
    return Listed(
        bdf,
        code[2] if code else CLASSES.get(kind),
        kind,
        ids[1] if ids else "10de" if unnamed else None,
        ids[2] if ids else unnamed[1] if unnamed else None,
        name[: ids.start()] if ids else name,
        _name(driver),
        group=head[1],
    )


def _name(match: re.Match[str] | None) -> str | None:
    return match[1] if match else None


def _with_detail(function: Listed, line: str) -> Listed:
    used, modules = _USED.search(line), _MODULES.search(line)
    if used:
        return replace(function, driver=used[1])
    if modules:
        return replace(function, modules=tuple(re.split(r"[,\s]+", modules[1].strip())))
    return function


def merge(listings: Sequence[Sequence[Listed]]) -> dict[Bdf, Listed]:
    """One function for each address: the first listing that has it, completed from the others."""
    found: dict[Bdf, Listed] = {}
    for listing in listings:
        for one in listing:
            known = found.get(one.bdf)
            if known is None:
                found[one.bdf] = one
                continue
            found[one.bdf] = replace(
                known,
                class_code=known.class_code or one.class_code,
                class_name=known.class_name or one.class_name,
                vendor=known.vendor or one.vendor,
                device=known.device or one.device,
                name=known.name or one.name,
                driver=known.driver if known.driver_told else one.driver,
                driver_told=known.driver_told or one.driver_told,
                modules=known.modules or one.modules,
                group=known.group or one.group,
            )
    return found
