"""Files of sysfs and procfs that somebody printed under ``### /path`` headings, and ``ls -l`` of /dev."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from checks.gpus import host_bus, host_seat, node
from checks.gpus.host_read import kept
from checks.gpus.texts.evidence import Evidence, number
from checks.record import Section

_HEADING = re.compile(r"^### (/(?:sys|proc)/\S+)\s*$", re.MULTILINE)
_NODE = re.compile(
    r"^c([rwxsStT-]{9})[.+]?\s+\d+\s+\S+\s+\S+\s+(\d+),\s+(\d+)\s.*?(?:/dev/)?(nvidia[\w-]*)\s*$",
    re.MULTILINE,
)
_SPEED = {"2.5": 1, "5.0": 2, "8.0": 3, "16.0": 4, "32.0": 5, "64.0": 6}
_NVIDIA_PAGES = ("/proc/driver/nvidia/", "/proc/devices", "/proc/cmdline", "/proc/modules", "/proc/cpuinfo")


def recognises(text: str) -> bool:
    return any(_wanted(path) for path in _HEADING.findall(text)) or _NODE.search(text) is not None


def _wanted(path: str) -> bool:
    return path.startswith((f"{node.PCI}/", *_NVIDIA_PAGES))


def read(text: str) -> Evidence:
    parts = _HEADING.split(text)
    pages = list(zip(parts[1::2], parts[2::2], strict=True))
    sections, devices = _bus([(path, body) for path, body in pages if path.startswith(f"{node.PCI}/")])
    driver: str | None = None
    for path, body in pages:
        if path.startswith(_NVIDIA_PAGES):
            sections.append(_page(path, body))
        if path in node.MODULE_VERSIONS:
            found = re.search(r"\s(\d{3,4}\.\d+(?:\.\d+)?)\s", body)
            driver = found[1] if found else None
    nodes = _nodes(text)
    if nodes:
        sections.append(Section("devices", host_seat.DEV, nodes.encode()))
    extra = {("gpu.count", "host")} if devices else set()
    if driver is not None or (devices and any(section.kind == "link" for section in sections)):
        extra.add(("driver.loaded", "host"))
    return Evidence(tuple(sections), devices, driver=driver, extra=frozenset(extra))


def _page(path: str, body: str) -> Section:
    section = Section("file", path, body.encode())
    if path == host_bus.CMDLINE:
        return host_bus.options(section)
    if path == host_bus.CPU:
        return host_bus.flags(section)
    if path == host_bus.MODULES:
        return kept(section, lambda line: line.startswith(("nvidia", "nv_peer_mem", "gdrdrv", "vfio_pci")))
    if path == host_seat.DEVICES:
        return kept(section, lambda line: "nvidia" in line)
    if path.endswith("/information"):
        return kept(section, lambda line: line.startswith(("Device Minor", "GPU Excluded")))
    return section


def _bus(pages: list[tuple[str, str]]) -> tuple[list[Section], dict[int, dict[str, Any]]]:
    names = [path.rsplit("/", 1)[-1] for path, _ in pages]
    if not names:
        return [], {}
    sections = [Section("dir", node.PCI, "".join(f"{name}\n" for name in names).encode())]
    devices: dict[int, dict[str, Any]] = {}
    for name, (path, body) in zip(names, pages, strict=True):
        values = dict(re.findall(r"^(\w+): ?(.*?) *$", body, re.MULTILINE))
        if values.get("vendor") != node.NVIDIA:
            continue
        sections.extend(_attributes(path, values))
        if values.get("class", "").startswith(node.DISPLAY_CLASSES):
            devices[len(devices)] = _link(name, values)
    return sections, devices


def _attributes(path: str, values: dict[str, str]) -> Iterator[Section]:
    for key in ("vendor", "device", "class", "numa_node", "local_cpulist"):
        if key in values:
            yield Section("file", f"{path}/{key}", f"{values[key]}\n".encode())
    for key in ("driver", "iommu_group"):
        if key in values:
            yield Section("link", f"{path}/{key}", values[key].encode() if values[key] else None)


def _link(name: str, values: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {"nvmlDeviceGetPciInfo": {"busId": name}}
    for key, here in (
        ("nvmlDeviceGetCurrPcieLinkWidth", "current_link_width"),
        ("nvmlDeviceGetMaxPcieLinkWidth", "max_link_width"),
    ):
        width = number(values.get(here, ""))
        if width is not None and 0 < width <= 32:
            found[key] = width
    for key, here in (
        ("nvmlDeviceGetCurrPcieLinkGeneration", "current_link_speed"),
        ("nvmlDeviceGetMaxPcieLinkGeneration", "max_link_speed"),
    ):
        speed = values.get(here, "").split(" ")[0]
        if speed in _SPEED:
            found[key] = _SPEED[speed]
    return found


def _nodes(text: str) -> str:
    """As host_seat keeps them: ``nvidia-uvm 238 0 0666``."""
    lines = {}
    for mode, major, minor, name in _NODE.findall(text):
        if re.fullmatch(r"nvidia(?:\d+|ctl|-uvm|-uvm-tools|-modeset)", name):
            bits = sum(1 << (8 - at) for at, letter in enumerate(mode) if letter != "-")
            lines[name] = f"{name} {major} {minor} {bits:04o}\n"
    return "".join(lines.values())
