"""libvirt: which domains name PCI functions of the host (libvirt, formatdomain: host device assignment). Pure.

A device is ``<hostdev type='pci'>``, or a network card ``<interface type='hostdev'>``, with its address in
``<source>``; what stands beside ``<source>`` is the guest's own address. With ``managed='yes'`` libvirt itself takes
the device from its driver. ``<qemu:arg value='vfio-pci,host=…'/>`` hands it to QEMU past libvirt (drvqemu).
"""

from __future__ import annotations

from xml.parsers import expat

from checks.snapshot import CouldNotLook, Snapshot
from provision.host.vms import proxmox
from provision.host.vms.address import PciAddress
from provision.host.vms.model import Status, VmReference

QEMU = "/etc/libvirt/qemu"
_RUN = "/run/libvirt/qemu"


def references(snapshot: Snapshot) -> tuple[VmReference, ...]:
    """What libvirt's domains name. Raises CouldNotLook when one of them is not XML."""
    found: list[VmReference] = []
    for path in sorted(snapshot.files(f"{QEMU}/")):
        folder, _, name = path.rpartition("/")
        if folder == QEMU and name.endswith(".xml"):
            found += _domain(snapshot, path, name.removesuffix(".xml"))
    return tuple(found)


class _Reader:
    """Where in the document we are, and the addresses found: line, managed, address."""

    def __init__(self) -> None:
        self.way: list[tuple[str, dict[str, str]]] = []
        self.found: list[tuple[int, bool, PciAddress]] = []
        self.parser = expat.ParserCreate()
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == "address" and len(self.way) > 1 and self.way[-1][0] == "source":
            device, said = self.way[-2]
            pci = (device, said.get("type")) in (("hostdev", "pci"), ("interface", "hostdev"))
            if pci and attributes.get("type", "pci") == "pci":
                parts = (_number(attributes.get(part, "0")) for part in ("domain", "bus", "slot", "function"))
                managed = said.get("managed") == "yes"
                self.found.append((self.parser.CurrentLineNumber, managed, PciAddress(*parts)))
        if tag.rpartition(":")[2] == "arg" and self.way[-1:] and self.way[-1][0].endswith("commandline"):
            for one in proxmox.qemu_arguments(attributes.get("value", "")):
                self.found.append((self.parser.CurrentLineNumber, False, one))
        self.way.append((tag, attributes))

    def _end(self, tag: str) -> None:
        self.way.pop()


def _number(text: str) -> int:
    """As libvirt reads it: 0x for hex, a leading 0 for octal. Raises ValueError."""
    text = text.strip().lower()
    if text.startswith("0") and text.isdecimal():
        return int(text, 8)
    return int(text, 0)


def _domain(snapshot: Snapshot, path: str, name: str) -> list[VmReference]:
    data = snapshot.file(path) or b""
    reader = _Reader()
    try:
        reader.parser.Parse(data, True)
    except (expat.ExpatError, ValueError) as error:
        raise CouldNotLook(f"{path} cannot be read as a domain of libvirt: {error}") from error
    lines = data.decode(errors="replace").split("\n")
    onboot = f"{QEMU}/autostart/{name}.xml" in _names(snapshot, f"{QEMU}/autostart/*")
    status: Status = "running" if f"{_RUN}/{name}.pid" in _names(snapshot, f"{_RUN}/*.pid") else "stopped"
    return [
        VmReference(
            kind="libvirt",
            vmid=name,
            name=name,
            node="",
            local=True,
            key="hostdev",
            where=f"{path}:{line}",
            text=lines[line - 1],
            section="current",
            snapshot=None,
            addresses=(address,),
            onboot=onboot,
            status=status,
            managed=managed,
        )
        for line, managed, address in reader.found
    ]


def _names(snapshot: Snapshot, pattern: str) -> list[str]:
    return (snapshot.data("names", pattern) or b"").decode(errors="surrogateescape").split("\n")
