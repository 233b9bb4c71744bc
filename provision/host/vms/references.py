"""All virtual machines of a host that name PCI functions. Pure."""

from __future__ import annotations

from checks.snapshot import Snapshot
from provision.host.binding import BINDING
from provision.host.vms import libvirt, proxmox
from provision.host.vms.model import VmReference

REQUESTS = [f"vms:{BINDING}"]
"""What the snapshot has to look at. In a recorded tree ``qm status 101`` is ``.kpro/cmd/qm-status-101.out``, the time
of the recording ``.kpro/cmd/date.out`` (seconds since 1970); a process lives while ``/proc/PID/cmdline`` is there."""


def vm_references(snapshot: Snapshot) -> tuple[VmReference, ...]:
    """All references: Proxmox's by vmid and line, those of other nodes too (``local`` False), then libvirt's. Raises
    CouldNotLook when the configuration of virtual machines cannot be read, or Proxmox's is not mounted."""
    return (*proxmox.references(snapshot), *libvirt.references(snapshot))
