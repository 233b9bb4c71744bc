"""``lspci`` in its forms (-nn, -vvv): the bus as sections, and the link width and speed of each GPU.

The way to a GPU is told by the bus numbers that its bridges carry.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from checks.bdf import Bdf
from checks.gpus import host_bus, node, parts
from checks.gpus.texts.evidence import Evidence
from checks.record import Section

_DEVICE = re.compile(
    r"^((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) (?P<kind>[^:\[]+?)(?: \[(?P<class>[0-9a-f]{4})\])?: "
    r"(?P<name>.*)$",
    re.IGNORECASE,
)
_IDS = re.compile(r"\[([0-9a-f]{4}):([0-9a-f]{4})\]")
_WORDS = {
    "VGA compatible controller": "0300",
    "3D controller": "0302",
    "Bridge": "0680",
    "PCI bridge": "0604",
}
_BUSES = re.compile(
    r"^\s+Bus: primary=([0-9a-f]{2}), secondary=([0-9a-f]{2}), subordinate=([0-9a-f]{2})", re.I
)
_LINK = re.compile(r"^\s+Lnk(Cap|Sta):.*?Speed ([\d.]+)GT/s.*?Width x(\d+)")
_ACS = re.compile(r"^\s+ACSCtl:\s*(.*)$")
_DRIVER = re.compile(r"^\s+Kernel driver in use: (\S+)")
_MODULES = re.compile(r"^\s+Kernel modules: ")
"""lspci -k shows them of a device without a driver too."""
_GENERATIONS = {"2.5": 1, "5": 2, "8": 3, "16": 4, "32": 5, "64": 6}
_FLAGS = {
    "SrcValid": 0x1, "TransBlk": 0x2, "ReqRedir": 0x4, "CmpltRedir": 0x8, "UpstreamFwd": 0x10, "EgressCtrl": 0x20,
    "DirectTrans": 0x40,
}  # fmt: skip
"""ACS control register, as lspci names its bits."""


_GONE = {"err": 15, "cls": "lspci", "msg": "lspci reads nothing but ff of it"}


class Device(NamedTuple):
    bdf: Bdf
    kind: str
    nvidia: bool
    device: str
    lines: list[str]
    revision: str | None = None

    @property
    def gpu(self) -> bool:
        return self.nvidia and self.kind in ("0300", "0302")

    @property
    def gone(self) -> bool:
        """Every byte that the bus reads of it is ff: it does not answer any more."""
        return self.revision == "ff" or any("Unknown header type 7f" in line for line in self.lines)

    def first(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        return next(filter(None, map(pattern.match, self.lines)), None)


def recognises(text: str) -> bool:
    return sum(_DEVICE.match(line) is not None for line in text.splitlines()[:2000]) >= 1


def read(text: str) -> Evidence:
    devices = list(_devices(text))
    gpus = [device for device in devices if device.gpu]
    verbose = any(device.first(_LINK) for device in devices)
    drivers = any(device.first(_DRIVER) or device.first(_MODULES) for device in devices)
    sections = [Section("dir", node.PCI, "".join(f"{d.bdf}\n" for d in devices).encode())]
    for device in devices:
        if device.nvidia:
            sections.extend(_about(device, drivers=drivers))
    if any(device.first(_BUSES) for device in devices):
        sections.extend(_ways(devices, gpus))
    shown: dict[int, dict[str, Any]] = {n: _width(gpu) for n, gpu in enumerate(gpus)} if verbose else {}
    shown |= {
        n: {**parts.unindexed(str(gpu.bdf)), "handle": dict(_GONE)} for n, gpu in enumerate(gpus) if gpu.gone
    }
    extra = {("gpu.count", "host")} | ({("driver.loaded", "host")} if drivers and gpus else set())
    return Evidence(tuple(sections), devices=shown, extra=frozenset(extra))


def _devices(text: str) -> Iterator[Device]:
    current: Device | None = None
    for line in text.splitlines():
        found = _DEVICE.match(line)
        if found is None:
            if current is not None:
                current.lines.append(line)
            continue
        if current is not None:
            yield current
        current = _device(found)
    if current is not None:
        yield current


def _device(found: re.Match[str]) -> Device | None:
    ids = _IDS.findall(found["name"])
    kind = (found["class"] or _WORDS.get(found["kind"].strip(), "")).lower()
    nvidia = ids[-1][0] == "10de" if ids else "NVIDIA" in found["name"]
    number = ids[-1][1] if ids else ""
    named = re.search(r"Device ([0-9a-f]{4})\b", found["name"])
    try:
        revision = re.search(r"\(rev ([0-9a-f]{2})\)", found["name"])
        identity = number or (named[1] if named else "")
        return Device(Bdf.parse(found[1]), kind, nvidia, identity, [], revision[1] if revision else None)
    except ValueError:
        return None


def _about(device: Device, *, drivers: bool) -> Iterator[Section]:
    """``drivers``: this form of lspci shows them, so that a device without one has none."""
    at = f"{node.PCI}/{device.bdf}"
    yield Section("file", f"{at}/vendor", f"{node.NVIDIA}\n".encode())
    yield Section("file", f"{at}/class", f"0x{device.kind or '0000'}00\n".encode())
    if device.device:
        yield Section("file", f"{at}/device", f"0x{device.device}\n".encode())
    driver = device.first(_DRIVER)
    if driver is not None:
        yield Section("link", f"{at}/driver", f"drivers/{driver[1]}".encode())
    elif drivers:
        yield Section("link", f"{at}/driver")


def _width(gpu: Device) -> dict[str, Any]:
    found: dict[str, Any] = {"nvmlDeviceGetPciInfo": {"busId": str(gpu.bdf)}}
    for line in gpu.lines:
        link = _LINK.match(line)
        if link is not None and link[1] == "Cap":
            found["nvmlDeviceGetMaxPcieLinkWidth"] = int(link[3])
        elif link is not None:
            found["nvmlDeviceGetCurrPcieLinkWidth"] = int(link[3])
            if link[2] in _GENERATIONS:
                found["nvmlDeviceGetCurrPcieLinkGeneration"] = _GENERATIONS[link[2]]
    return found


def _ways(devices: list[Device], gpus: list[Device]) -> Iterator[Section]:
    """Of each GPU the bridges whose bus range holds it, widest first; of each such bridge its ACS register."""
    bridges = []
    for device in devices:
        buses = device.first(_BUSES)
        if buses is not None:
            bridges.append((device, int(buses[2], 16), int(buses[3], 16)))
    used: dict[Bdf, Device] = {}
    for gpu in gpus:
        above = [
            (last - first, bridge)
            for bridge, first, last in bridges
            if bridge.bdf.domain == gpu.bdf.domain and first <= gpu.bdf.bus <= last
        ]
        way = [bridge for _, bridge in sorted(above, key=lambda item: -item[0])]
        used.update((bridge.bdf, bridge) for bridge in way)
        names = " ".join(str(one.bdf) for one in (*way, gpu))
        yield Section("path", f"{host_bus.PCI}/{gpu.bdf}", names.encode())
    for bridge in used.values():
        yield Section("acs", f"{host_bus.PCI}/{bridge.bdf}", *_control(bridge))


def _control(bridge: Device) -> tuple[bytes | None, str | None]:
    if any("access denied" in line for line in bridge.lines):
        return None, "lspci ran without root and could not read the capabilities"
    found = bridge.first(_ACS)
    if found is None:
        return b"none\n", None
    value = sum(bit for name, bit in _FLAGS.items() if f"{name}+" in found[1].split())
    return f"control {value:#06x}\n".encode(), None
