"""lspci's listings in all their spellings: -k, -nn, -n, -D, -v, -mm, -vmm, one by one or by IOMMU group. Pure.

A line of a function is ``[DOMAIN:]BUS:SLOT.FUNCTION CLASS [CODE]: NAME [VENDOR:DEVICE] (rev NN)`` (lspci(8)); without
``-nn`` there are only names, with ``-n`` only numbers. What belongs to it follows on lines that begin with a blank.
Listings of IOMMU groups put ``IOMMU Group N`` before each line, or above the lines of a group, some with the ids and
``[R]`` (it can be reset) before the address. ``-mm`` quotes the fields of a line, ``-vmm`` gives each its own.
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
_HEAD = re.compile(
    rf"\s*(?:(?:IOMMU )?[Gg]roup:?\s*(\S+?):?\s+)?"
    rf"(?:\[([0-9a-f]{{4}}):([0-9a-f]{{4}})\]\s+)?(?:\[R\]\s+)?({_ADDRESS})\s+(\S.*)"
)
_GROUP = re.compile(r"\s*(?:IOMMU )?[Gg]roup:? (\d+):?\s*")
_QUOTED = re.compile(rf'({_ADDRESS}) "([^"]*)" "([^"]*)" "([^"]*)".*')
_FIELD = re.compile(r"(Slot|Class|Vendor|Device|Driver|Module|Rev|IOMMUGroup):\t(.*)")
_OF_GROUP = re.compile(r"IOMMU group:? (\d+)")
_LOST = re.compile(r"\(rev ff\)|Unknown header type 7f")
"""What stands there for a function that does not answer: all of its configuration reads ff."""

_USED = re.compile(r"Kernel driver in use:\s*(\S+)")
_MODULES = re.compile(r"Kernel modules:\s*(\S.*)")
_UNNAMED = re.compile(r"NVIDIA Corporation Device ([0-9a-f]{4})")
"""What lspci prints of a function that its pci.ids does not have: the id stands in place of the name."""

_DRIVER = re.compile(r"\(driver: ([^)\s]+)\)|\s+Driver: (\S+)$")


@dataclass(frozen=True)
class Listed:
    """A function as lspci lists it. Ids and class are in hex without 0x, None where the listing has only names;
    ``driver`` is None when it has none; ``driver_told``: does the listing tell drivers at all? ``modules`` are those
    that could drive it. ``lost``: it does not answer."""

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
    lost: bool = False

    @property
    def is_nvidia(self) -> bool:
        # Lists of pci.ids before 2013 wrote it nVidia.
        return self.vendor == "10de" if self.vendor else self.name.lower().startswith("nvidia corporation")


def is_listing(text: str) -> bool:
    """Does a text hold at least one line of a PCI function?"""
    return bool(parse(text))


def parse(text: str, tells_drivers: bool = False) -> tuple[Listed, ...]:
    """The functions in their order. ``tells_drivers``: the listing was made with ``-k``; else it is taken for one where
    it names the driver or the modules of any function."""
    found: list[Listed] = []
    group = None
    for line in text.splitlines():
        field = _FIELD.fullmatch(line.rstrip())
        if field:
            _take_field(found, field[1], field[2])
            continue
        above = _GROUP.fullmatch(line)
        if above and not (found and re.match(r"\s+IOMMU group: ", line)):
            group = above[1]
            continue
        function = _function(line)
        if function is not None:
            found.append(replace(function, group=function.group or group))
        elif found and line[:1] in (" ", "\t"):
            found[-1] = _with_detail(found[-1], line)
    told = tells_drivers or any(one.driver or one.modules for one in found)
    return tuple(replace(one, driver_told=told) for one in found)


def _take_field(found: list[Listed], key: str, value: str) -> None:
    """A line of ``-vmm``: the slot begins a function, what follows is of the last one."""
    if key in ("Slot", "Device") and re.fullmatch(_ADDRESS, value):
        found.append(Listed(Bdf.parse(value), None, None, None, None, ""))
    elif found:
        last = found[-1]
        name, code = _coded(value)
        kinds: dict[str, dict[str, object]] = {
            "Class": {"class_code": code or CLASSES.get(name), "class_name": name},
            "Vendor": {"vendor": code, "name": name},
            "Device": {"device": code, "name": f"{last.name} {name}"},
            "Driver": {"driver": value, "driver_told": True},
            "Module": {"modules": (*last.modules, value), "driver_told": True},
            "Rev": {"lost": value == "ff"},
            "IOMMUGroup": {"group": value},
        }
        found[-1] = replace(last, **kinds.get(key, {}))  # type: ignore[arg-type]


def _coded(text: str) -> tuple[str, str | None]:
    """``GA102GL [RTX A6000] [2230]``, or with ``-n`` the number alone: the name, and the number in hex."""
    if re.fullmatch(r"[0-9a-f]{4}", text):
        return "", text
    match = re.fullmatch(r"(.*?)\s*\[([0-9a-f]{4})\]", text)
    return (match[1], match[2]) if match else (text, None)


def _function(line: str) -> Listed | None:
    quoted = _QUOTED.fullmatch(line.rstrip())
    if quoted:
        found: list[Listed] = []
        for key, value in zip(("Slot", "Class", "Vendor", "Device"), quoted.groups(), strict=True):
            _take_field(found, key, value)
        return replace(found[0], lost=" -rff " in line)
    head = _HEAD.fullmatch(line.rstrip())
    if head is None:
        return None
    try:
        bdf = Bdf.parse(head[4])
    except ValueError:
        return None
    rest, lost = head[5], _LOST.search(head[5]) is not None
    driver = _DRIVER.search(rest)
    rest = _DRIVER.sub("", rest)
    rest = re.sub(r"\s*\((?:rev|prog-if) [^)]*\)", "", rest).strip()
    numbers = re.fullmatch(r"(?:Class )?([0-9a-f]{4}): ([0-9a-f]{4}):([0-9a-f]{4})", rest)
    if numbers:
        return Listed(
            bdf, numbers[1], None, numbers[2], numbers[3], "", _name(driver), group=head[1], lost=lost
        )
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
        ids[1] if ids else "10de" if unnamed else head[2],
        ids[2] if ids else unnamed[1] if unnamed else head[3],
        name[: ids.start()] if ids else name,
        _name(driver),
        group=head[1],
        lost=lost,
    )


def _name(match: re.Match[str] | None) -> str | None:
    return next(filter(None, match.groups()), None) if match else None


def _with_detail(function: Listed, line: str) -> Listed:
    used, modules, group = _USED.search(line), _MODULES.search(line), _OF_GROUP.search(line)
    if _LOST.search(line):
        return replace(function, lost=True)
    if group:
        return replace(function, group=function.group or group[1])
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
                lost=known.lost or one.lost,
            )
    return found
