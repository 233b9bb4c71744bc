"""What ``provision assign`` asks for, and what the parts of it hand to their acts. Plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from checks.bdf import Bdf
from provision.guest.decide import Container

To = Literal["vm", "lxc"]


@dataclass(frozen=True)
class Handover:
    """One GPU, and who is to have it. ``run`` is the run that asks; ``vmid`` the virtual machine to configure."""

    bdf: Bdf
    to: To
    run: str
    vmid: str | None = None


@dataclass(frozen=True)
class Given:
    """A PCI function on its way to vfio-pci: the driver that it is bound to now (None: none) and its IOMMU group."""

    bdf: Bdf
    now: str | None
    group: str


@dataclass(frozen=True)
class Give:
    """A GPU with all functions of its slot that must be on vfio-pci afterwards. ``keep`` are NVIDIA's other functions,
    which must stay as they are."""

    gpu: Bdf
    functions: tuple[Given, ...]
    keep: tuple[Bdf, ...]


@dataclass(frozen=True)
class Rest:
    """A container that lacks a GPU: stopped, configured without it, not started at boot. ``running``: it runs now."""

    container: Container
    running: bool


@dataclass(frozen=True)
class ProxmoxRest:
    """The same of a Proxmox container: the keys that go, by what they are now, and whether it starts at boot now."""

    id: str
    gone: tuple[tuple[str, str], ...]
    onboot: str | None
    running: bool


@dataclass(frozen=True)
class VmKey:
    """One key of a stopped virtual machine. ``before`` and ``after``: its value, None where it is not there."""

    vmid: str
    key: str
    before: str | None
    after: str | None
