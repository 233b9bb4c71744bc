"""What the machine itself shows about its GPUs: the PCI bus, the kernel module, whether this is a container.

``look`` observes and gives record sections; ``parse`` types the sections of any record.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from checks.bdf import Bdf
from checks.errors import BadInput
from checks.record import Section

PCI = "/sys/bus/pci/devices"
MODULE_VERSIONS = ("/sys/module/nvidia/version", "/proc/driver/nvidia/version")
CONTAINER_MARKS = ("/run/systemd/container", "/.dockerenv", "/run/.containerenv")
LIBRARY = "libnvidia-ml.so.1"
NVIDIA = "0x10de"
DISPLAY_CLASSES = ("0x0300", "0x0302")
"""VGA and 3D controllers. Class 0680 (NVSwitch) and 0403 (audio) are no GPUs, whatever their vendor."""

_READ_LIMIT = 4096


@dataclass(frozen=True)
class PciGpu:
    """An NVIDIA GPU on the bus; ``driver`` None: no driver holds it."""

    bdf: Bdf
    driver: str | None


@dataclass(frozen=True)
class Node:
    """``gpus`` None: the bus was not looked at. ``module`` is the version of the loaded kernel module.

    ``module_absent`` is True only when the module is positively not loaded.
    """

    gpus: tuple[PciGpu, ...] | None = None
    module: str | None = None
    module_absent: bool = False
    library: str | None = None
    container: bool = False

    def held_by(self) -> str:
        """``0000:42:00.0 (vfio-pci), 0000:61:00.0 (no driver)``."""
        return ", ".join(f"{gpu.bdf} ({gpu.driver or 'no driver'})" for gpu in self.gpus or ())


def look(root: str = "") -> tuple[Section, ...]:
    """Reads sysfs and procfs below ``root``. Never raises: what cannot be read is a section with an error."""
    return (*(_file(root, path) for path in (*MODULE_VERSIONS, *CONTAINER_MARKS)), *_pci(root))


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
        vendor = _file(root, f"{at}/vendor")
        if vendor.data is None or vendor.data.strip() != NVIDIA.encode():
            continue
        yield from (
            vendor,
            _file(root, f"{at}/device"),
            _file(root, f"{at}/class"),
            _link(root, f"{at}/driver"),
        )


def _file(root: str, path: str) -> Section:
    try:
        with Path(root + path).open("rb") as file:
            return Section("file", path, file.read(_READ_LIMIT))
    except (FileNotFoundError, NotADirectoryError):
        return Section("file", path)
    except OSError as error:
        return Section("file", path, None, error.strerror or str(error))


def _link(root: str, path: str) -> Section:
    try:
        return Section("link", path, str(Path(root + path).readlink()).encode())
    except FileNotFoundError:
        return Section("link", path)
    except OSError as error:
        return Section("link", path, None, error.strerror or str(error))


def parse(sections: Iterable[Section], name: str) -> Node:
    """Types the sections; those that are missing leave their part unknown. Raises BadInput on a wrong one."""
    by = {(section.kind, section.path): section for section in sections}
    versions = [by.get(("file", path)) for path in MODULE_VERSIONS]
    texts = [_version(section.data) for section in versions if section and section.data is not None]
    library = by.get(("link", LIBRARY))
    return Node(
        gpus=_gpus(by, name),
        module=next(filter(None, texts), None),
        module_absent=all(s is not None and s.data is None and s.error is None for s in versions),
        library=_version(library.data) if library and library.data is not None else None,
        container=any(
            (s := by.get(("file", path))) is not None and s.data is not None for path in CONTAINER_MARKS
        ),
    )


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
        try:
            gpus.append(PciGpu(Bdf.parse(device), target.rsplit("/", 1)[-1] or None))
        except ValueError as error:
            raise BadInput(f"{name}: {error}") from None
    return tuple(gpus)
