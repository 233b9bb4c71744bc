"""QEMU's command line for a test host. Values in, words out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from checks.testhost import PRODUCT

# Split, because the emulated IOMMU remaps interrupts; no graphics, so that firmware and GRUB speak on the
# serial line.
MACHINE = ("-machine", "q35,kernel-irqchip=split,graphics=off",
           "-device", "intel-iommu,intremap=on,caching-mode=on")  # fmt: skip
"""Chip set and IOMMU: what makes each root port's devices an IOMMU group of their own."""

_FIRST_PORT = 2
"""PCI slot of the first root port on the root bus."""

MOST_GPUS = 8


@dataclass(frozen=True)
class Sockets:
    """Where the server of one GPU listens for its two functions."""

    gpu: Path
    audio: Path


@dataclass(frozen=True)
class Shape:
    """A machine to start. ``memory`` in MiB; ``user``: whom QEMU becomes once everything is open."""

    disk: Path
    serial: Path
    qmp: Path
    ssh_port: int
    gpus: Sequence[Sockets]
    memory: int = 2048
    processors: int = 2
    kvm: bool = False
    outbound: bool = False
    user: tuple[int, int] | None = None


def words(shape: Shape) -> list[str]:
    """The arguments. Raises ValueError for more GPUs than there are root ports."""
    if len(shape.gpus) > MOST_GPUS:
        raise ValueError(f"{len(shape.gpus)} GPUs: a test host has room for {MOST_GPUS}")
    accelerator = ["-accel", "kvm", "-cpu", "host"] if shape.kvm else ["-accel", "tcg,thread=multi"]
    net = f"user,id=n0,restrict={'off' if shape.outbound else 'on'}"
    return [
        *MACHINE,
        *accelerator,
        *("-nodefaults", "-no-user-config", "-display", "none", "-vga", "none", "-monitor", "none"),
        *("-smp", str(shape.processors), "-m", str(shape.memory)),
        *("-smbios", f"type=1,product={PRODUCT}"),
        # Written through QEMU's cache and flushed when the guest asks: survives the end of QEMU, as a disk must.
        *("-drive", f"file={_escaped(shape.disk)},if=none,id=d0,format=qcow2,cache=writeback"),
        *("-device", "virtio-blk-pci,drive=d0,iommu_platform=on,disable-legacy=on,addr=10.0,bootindex=0"),
        *("-netdev", f"{net},hostfwd=tcp:127.0.0.1:{shape.ssh_port}-:22"),
        *("-device", "virtio-net-pci,netdev=n0,addr=11.0,romfile="),
        *(word for number, sockets in enumerate(shape.gpus) for word in _slot(number, sockets)),
        *("-serial", f"file:{shape.serial}", "-qmp", f"unix:{_escaped(shape.qmp)},server=on,wait=off"),
        *(("-run-with", f"user={shape.user[0]}:{shape.user[1]}") if shape.user else ()),
    ]


def bdf(number: int) -> str:
    """Place of the GPU ``number`` (from 0): the firmware numbers buses in the order of the root ports."""
    return f"0000:{number + 1:02x}:00.0"


def _slot(number: int, sockets: Sockets) -> list[str]:
    port = f"rp{number + 1}"
    root = f"pcie-root-port,id={port},chassis={number + 1},slot={number + 1},addr={_FIRST_PORT + number:x}.0"
    functions = [
        {"driver": "vfio-user-pci", "bus": port, "addr": f"0x0.{function}", **more,
         "socket": {"type": "unix", "path": str(path)}}
        for function, path, more in ((0, sockets.gpu, {"multifunction": True}), (1, sockets.audio, {}))
    ]  # fmt: skip
    return ["-device", root, *(word for row in functions for word in ("-device", json.dumps(row)))]


def _escaped(path: Path) -> str:
    return str(path).replace(",", ",,")
