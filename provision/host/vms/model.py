"""What it is that a virtual machine names a PCI function. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from checks.bdf import Bdf
from provision.host.vms.address import PciAddress

Section = Literal["current", "pending", "snapshot", "template"]
Status = Literal["running", "stopped", "unknown"]


@dataclass(frozen=True)
class VmReference:
    """One place in which a virtual machine names PCI functions.

    ``kind``: whose definition it is. ``vmid``: its number, or its name with libvirt. ``node``: the machine that it
    belongs to, ``local`` when that is the one looked at: only those can hold a GPU of it. ``key``: ``hostpci0``,
    ``args`` or ``hostdev``. ``where``: path:line. ``section``: ``template`` stands for all of a template;
    ``snapshot`` is the name of one, else None. ``addresses``: what is named, mappings resolved for the node; empty
    with the reason in ``unresolved`` where that cannot be told. ``onboot``: it starts with the machine. ``ha``: the
    state that the HA manager keeps it in, None when it does not. ``status``: ``running`` is everything but stopped.
    ``elsewhere``: what its mapping names on the machine looked at, for one of another node. ``leaving``: the next
    start takes it out. ``hookscript``: as configured. ``managed``: libvirt itself binds it to vfio-pci.
    """

    kind: Literal["qemu-server", "libvirt"]
    vmid: str
    name: str
    node: str
    local: bool
    key: str
    where: str
    text: str
    section: Section
    snapshot: str | None
    addresses: tuple[PciAddress, ...]
    mapping: str | None = None
    elsewhere: tuple[PciAddress, ...] = ()
    unresolved: str | None = None
    onboot: bool = False
    ha: str | None = None
    status: Status = "unknown"
    leaving: bool = False
    hookscript: str | None = None
    managed: bool = False

    def covers(self, bdf: Bdf) -> bool:
        """Is this function named?"""
        return any(address.covers(bdf) for address in self.addresses)

    @property
    def startable(self) -> bool:
        """Would a start of the machine, as it is defined now, take what is named? Proxmox applies what is pending just
        before a start (qemu-server, PVE/QemuServer.pm ``vm_start_nolock``): a stopped one that gives it back does not.
        """
        gives_back = self.leaving and self.status == "stopped"
        return self.local and self.section in ("current", "pending") and not gives_back

    @property
    def running(self) -> bool:
        return self.local and self.status == "running" and self.section in ("current", "pending")

    def __str__(self) -> str:
        return f"{self.where}: {self.text.strip()}"
