"""A recorded tree of a host with one GPU at 0000:42:00, on which each test puts what it is about."""

from __future__ import annotations

import os
from pathlib import Path

from checks.snapshot import Snapshot
from provision.host import boot
from provision.host.observe import observe_tree
from provision.host.release.decide import metal_plan
from provision.plan import Plan
from provision.spec import Driver, Gpu, Machine

GPU, AUDIO = "0000:42:00.0", "0000:42:00.1"
KERNEL = "6.8.12-4-pve"
REQUESTS = [
    "file:/proc/cmdline",
    "file:/proc/driver/nvidia/version",
    "cmd:uname-r:uname -r",
    "pci:",
    *boot.REQUESTS,
]


class Tree:
    """``put`` takes the paths of the machine."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name, output in (("uname-r", KERNEL), ("openers", ""), ("dmesg", ""), ("tools", "update-grub")):
            self.cmd(name, f"{output}\n")
        self.put(f"/boot/vmlinuz-{KERNEL}", "").put(f"/lib/modules/{KERNEL}/modules.dep", "")
        self.put("/proc/cmdline", f"BOOT_IMAGE=/boot/vmlinuz-{KERNEL} ro quiet\n").put("/proc/modules", "")
        self.put("/etc/modprobe.d/nouveau.conf", "blacklist nouveau\n")
        self.function(GPU, "0x2230", "0x030000", "25").function(AUDIO, "0x1aef", "0x040300", "25")

    def put(self, path: str, text: str) -> Tree:
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        return self

    def link(self, path: str, target: str) -> Tree:
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target)
        return self

    def cmd(self, name: str, output: str, code: int = 0) -> Tree:
        return self.put(f"/.kpro/cmd/{name}.out", output).put(f"/.kpro/cmd/{name}.rc", f"{code}\n")

    def function(
        self,
        bdf: str,
        device: str,
        pci_class: str,
        group: str,
        driver: str = "vfio-pci",
        vendor: str = "0x10de",
    ) -> Tree:
        place = f"/sys/bus/pci/devices/{bdf}"
        values = {"vendor": vendor, "device": device, "class": pci_class, "power_state": "D0"}
        for name, value in {**values, "driver_override": "(null)"}.items():
            self.put(f"{place}/{name}", f"{value}\n")
        self.put(f"{place}/resource", "0x0 0x0 0x0\n0x20000000000 0x20fffffffff 0x14220c\n")
        (self.root / place.lstrip("/") / "config").write_bytes(
            bytes.fromhex(f"de10{device[4:]}{device[2:4]}")
        )
        if driver:
            self.link(f"{place}/driver", f"../../../../bus/pci/drivers/{driver}")
        self.link(f"{place}/iommu_group", f"../../../../kernel/iommu_groups/{group}")
        return self.link(f"/sys/kernel/iommu_groups/{group}/devices/{bdf}", f"../../../../devices/{bdf}")

    def vm(self, vmid: int, text: str, node: str = "pve", status: str | None = "stopped") -> Tree:
        """A virtual machine of Proxmox; the host is node ``pve``."""
        if not os.path.lexists(self.root / "etc/pve/local"):
            self.link("/etc/pve/local", "nodes/pve")
        if status is not None and node == "pve":
            self.cmd(f"qm-status-{vmid}", f"status: {status}\n")
        return self.put(f"/etc/pve/nodes/{node}/qemu-server/{vmid}.conf", text)

    @property
    def snapshot(self) -> Snapshot:
        return observe_tree(self.root, REQUESTS)

    @property
    def plan(self) -> Plan:
        machine = Machine(
            name="box",
            gpus=[Gpu(bdf=GPU, model="RTX A6000")],
            driver=Driver(version="580.159.04", flavour="open", route="prebuilt"),
        )
        return metal_plan(machine, self.snapshot)[0]

    @property
    def refused(self) -> str:
        return "\n".join(map(str, self.plan.refusals))

    @property
    def notes(self) -> str:
        return "\n".join(self.plan.notes)
