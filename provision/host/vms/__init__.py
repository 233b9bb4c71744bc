"""Virtual machines that can take a GPU, as Proxmox and libvirt define them, and whether one is in use."""

from provision.host.vms.model import VmReference
from provision.host.vms.references import REQUESTS, vm_references

__all__ = ["REQUESTS", "VmReference", "vm_references"]
