"""What the machine itself shows about its GPUs: the PCI bus, the kernel module, whether this is a container.

``look`` observes and gives record sections; ``parse`` types the sections of any record.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from checks.bdf import Bdf
from checks.errors import BadInput
from checks.gpus import host_bus, host_seat, host_services, kernel_events, kernlog, kernlogs
from checks.gpus.host_bus import Bus
from checks.gpus.host_read import By, file, link
from checks.gpus.host_seat import Seat
from checks.gpus.host_services import Services
from checks.gpus.kernel_events import Event
from checks.gpus.kernlog import KernelLog
from checks.record import Section

PCI = "/sys/bus/pci/devices"
MODULE_VERSIONS = ("/sys/module/nvidia/version", "/proc/driver/nvidia/version")
CONTAINER_MARKS = ("/run/systemd/container", "/.dockerenv", "/run/.containerenv")
FABRIC_LOG = "fabricmanager"
_FABRIC_ERROR = re.compile(r"\[(?:ERROR|CRITICAL)\]\s*(?:\[tid \d+\]\s*)?(\S.*)")
LIBRARY = "libnvidia-ml.so.1"
NODES = "/dev"
PROC_GPUS = "/proc/driver/nvidia/gpus"
NVIDIA = "0x10de"
DISPLAY_CLASSES = ("0x0300", "0x0302")
"""VGA and 3D controllers. Class 0680 (NVSwitch) and 0403 (audio) are no GPUs, whatever their vendor."""


@dataclass(frozen=True)
class PciGpu:
    """An NVIDIA GPU on the bus; ``driver`` None: no driver holds it. ``minor`` is that of its device node, None
    when the driver does not say. ``excluded``: the driver was told to leave it out (NVreg_ExcludedGpus)."""

    bdf: Bdf
    driver: str | None
    minor: int | None = None
    excluded: bool = False
    driver_seen: bool = True
    """Whether the evidence shows drivers at all."""


@dataclass(frozen=True)
class Node:
    """``gpus`` None: the bus was not looked at. ``module`` is the version of the loaded kernel module.

    ``module_absent`` is True only when the module is positively not loaded. ``nodes`` are the minors of the
    GPU device nodes in /dev, None: not looked at.
    """

    gpus: tuple[PciGpu, ...] | None = None
    module: str | None = None
    module_absent: bool = False
    library: str | None = None
    open_module: bool = False
    container: bool = False
    nodes: frozenset[int] | None = None
    kernel: KernelLog = field(default_factory=lambda: kernlog.parse(None))
    switches: tuple[Bdf, ...] = ()
    bus: Bus = field(default_factory=Bus)
    seat: Seat = field(default_factory=Seat)
    services: Services | None = None
    fabric_events: tuple[Event, ...] = ()
    fabric_log: bool = False
    fabric_errors: tuple[str, ...] = ()
    """Errors in fabric manager's own log that are none of a switch, without time and thread."""

    @property
    def modules(self) -> frozenset[str] | None:
        return self.bus.modules

    @property
    def rdma(self) -> tuple[str, ...]:
        """RDMA devices whose port is up."""
        return self.bus.rdma

    def given(self, gpu: PciGpu) -> bool | None:
        """Does this GPU belong here? sysfs shows a container all GPUs of its host; those that were passed in have
        a device node that may be used. None: it cannot be told."""
        if not self.container:
            return True
        if self.nodes is None or gpu.minor is None:
            return None
        return gpu.minor in self.nodes - self.seat.others

    @property
    def other_drivers(self) -> tuple[PciGpu, ...]:
        """GPUs of which the evidence shows that another driver than nvidia holds them, or none."""
        return tuple(gpu for gpu in self.gpus or () if gpu.driver_seen and gpu.driver != "nvidia")

    def held_by(self) -> str:
        """``0000:42:00.0 (vfio-pci), 0000:61:00.0 (no driver)``."""
        return ", ".join(
            f"{gpu.bdf} ({gpu.driver or 'no driver'})" if gpu.driver_seen else str(gpu.bdf)
            for gpu in self.gpus or ()
        )


def look(root: str = "") -> tuple[Section, ...]:
    """Reads sysfs and procfs below ``root``. Never raises: what cannot be read is a section with an error."""
    bus = tuple(_pci(root))
    gpus, switches = names_of(bus)
    return (
        *(file(root, path) for path in (*MODULE_VERSIONS, *CONTAINER_MARKS)),
        *bus,
        _nodes(root),
        *host_bus.look(root, gpus),
        *host_seat.look(root),
        *host_services.look(root, switches=bool(switches)),
    )


def names_of(sections: Iterable[Section]) -> tuple[list[str], list[str]]:
    """The GPUs and the NVSwitches among NVIDIA's devices, by the class that was read of each."""
    classes = {
        section.path.split("/")[-2]: section.data.decode(errors="replace")
        for section in sections
        if section.kind == "file" and section.path.endswith("/class") and section.data is not None
    }
    gpus = [name for name, kind in classes.items() if kind.startswith(DISPLAY_CLASSES)]
    return gpus, [name for name, kind in classes.items() if kind.startswith(host_bus.SWITCH_CLASS)]


def _nodes(root: str) -> Section:
    """GPU device nodes with their minors: ``nvidia0 0``. nvidiactl and the others carry no GPU."""
    try:
        found = [
            f"{entry.name} {os.minor(entry.stat().st_rdev)}\n"
            for entry in Path(root + NODES).iterdir()
            if re.fullmatch(r"nvidia\d+", entry.name) and entry.is_char_device()
        ]
    except OSError as error:
        return Section("nodes", NODES, None, error.strerror or str(error))
    return Section("nodes", NODES, "".join(sorted(found)).encode())


def _pci(root: str) -> Iterator[Section]:
    try:
        names = sorted(entry.name for entry in Path(root + PCI).iterdir())
    except FileNotFoundError:
        yield Section("dir", PCI)
        return
    except OSError as error:
        yield Section("dir", PCI, None, error.strerror or str(error))
        return
    yield Section("dir", PCI, "".join(f"{name}\n" for name in names).encode())
    for name in names:
        at = f"{PCI}/{name}"
        vendor = file(root, f"{at}/vendor")
        if vendor.data is None or vendor.data.strip() != NVIDIA.encode():
            continue
        yield from (
            vendor,
            file(root, f"{at}/device"),
            file(root, f"{at}/class"),
            link(root, f"{at}/driver"),
            *_information(root, name),
        )


def _information(root: str, name: str) -> Iterator[Section]:
    """The driver's own page of a GPU, without what identifies the board."""
    page = file(root, f"{PROC_GPUS}/{name}/information")
    if page.data is not None:
        lines = page.data.decode(errors="replace").splitlines()
        kept = "".join(f"{line}\n" for line in lines if line.startswith(("Device Minor", "GPU Excluded")))
        yield Section(page.kind, page.path, kept.encode())
    elif page.error is not None:
        yield page


def parse(sections: Iterable[Section], name: str) -> Node:
    """Types the sections; those that are missing leave their part unknown. Raises BadInput on a wrong one."""
    by = {(section.kind, section.path): section for section in sections}
    fabric = kernlog.parse(by.get(("log", FABRIC_LOG)))
    versions = [by.get(("file", path)) for path in MODULE_VERSIONS]
    texts = [_version(section.data) for section in versions if section and section.data is not None]
    library = by.get(("link", LIBRARY))
    gpus = _gpus(by, name)
    return Node(
        gpus=gpus,
        module=next(filter(None, texts), None),
        open_module=any(b"Open Kernel Module" in (s.data or b"") for s in versions if s),
        module_absent=all(s is not None and s.data is None and s.error is None for s in versions),
        library=_version(library.data) if library and library.data is not None else None,
        container=any(
            (s := by.get(("file", path))) is not None and s.data is not None for path in CONTAINER_MARKS
        ),
        nodes=_minors(by.get(("nodes", NODES))),
        kernel=kernlogs.parse(by.values()),
        switches=_switches(by),
        bus=host_bus.parse(by, [gpu.bdf for gpu in gpus or ()]),
        seat=host_seat.parse(by),
        services=host_services.parse(by),
        fabric_events=fabric.events,
        fabric_log=fabric.there,
        fabric_errors=tuple(
            found[1]
            for line in fabric.lines
            if (found := _FABRIC_ERROR.search(line)) and not list(kernel_events.events([line]))
        ),
    )


def _switches(by: By) -> tuple[Bdf, ...]:
    """NVSwitches: bridges of NVIDIA that carry no PCI bus."""
    _, names = names_of(by.values())
    vendors = {name: by.get(("file", f"{PCI}/{name}/vendor")) for name in names}
    ours = [
        name for name, vendor in vendors.items() if vendor and (vendor.data or b"").strip() == NVIDIA.encode()
    ]
    found = []
    for name in ours:
        with suppress(ValueError):
            found.append(Bdf.parse(name))
    return tuple(found)


def _minors(section: Section | None) -> frozenset[int] | None:
    if section is None or section.data is None:
        return None
    found = re.findall(r"^nvidia\d+ (\d+)$", section.data.decode(errors="replace"), re.MULTILINE)
    return frozenset(map(int, found))


def _version(data: bytes) -> str | None:
    """The driver version in a bare text, in /proc/driver/nvidia/version or in a library's file name."""
    found = re.search(r"(?<!\d)(?<!\d\.)(\d{3,4}\.\d+(?:\.\d+)?)(?![\d.])", data.decode(errors="replace"))
    return found[1] if found else None


def _gpus(by: dict[tuple[str, str], Section], name: str) -> tuple[PciGpu, ...] | None:
    listing = by.get(("dir", PCI))
    if listing is None or listing.data is None:
        return None
    gpus = []
    for device in listing.data.decode(errors="replace").split():
        at = f"{PCI}/{device}"
        vendor, kind = by.get(("file", f"{at}/vendor")), by.get(("file", f"{at}/class"))
        if vendor is None or kind is None or vendor.data is None or kind.data is None:
            continue
        if vendor.data.strip() != NVIDIA.encode() or not kind.data.decode(errors="replace").startswith(
            DISPLAY_CLASSES
        ):
            continue
        driver = by.get(("link", f"{at}/driver"))
        target = driver.data.decode(errors="replace") if driver and driver.data else ""
        page = by.get(("file", f"{PROC_GPUS}/{device}/information"))
        said = page.data.decode(errors="replace") if page and page.data else ""
        minor = re.search(r"^Device Minor:\s*(\d{1,4})\s*$", said, re.MULTILINE)
        excluded = re.search(r"^GPU Excluded:\s*Yes\b", said, re.MULTILINE) is not None
        try:
            bdf = Bdf.parse(device)
        except ValueError as error:
            raise BadInput(f"{name}: {error}") from None
        driver_name = target.rsplit("/", 1)[-1] or None
        gpus.append(PciGpu(bdf, driver_name, int(minor[1]) if minor else None, excluded, driver is not None))
    return tuple(gpus)
