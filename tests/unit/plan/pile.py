"""A machine with two A6000 that everything holds at once, and what it looks like after each step."""

from __future__ import annotations

from collections.abc import Iterable

from provision.host import boot
from provision.host.moves import Edits
from provision.plan import Item
from provision.spec import Driver, Gpu, Machine
from tests.unit.plan.seen import Seen

FIRST, SECOND = "0000:01:00.0", "0000:02:00.0"
VERSION = "535.261.03"
LOADED = f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {VERSION}  Release Build  (builder)\n"

VFIO = """# GPUs for virtual machines
options vfio-pci ids=10de:2230,10de:1aef disable_vga=1
softdep nvidia pre: vfio-pci
softdep nouveau pre: vfio-pci
blacklist nouveau
blacklist nvidia
"""
GRUB = """GRUB_DEFAULT=0
GRUB_CMDLINE_LINUX_DEFAULT="quiet intel_iommu=on iommu=pt vfio-pci.ids=10de:2230,10de:1aef"
GRUB_CMDLINE_LINUX=""
"""
RULES = f"""SUBSYSTEM=="pci", KERNEL=="{FIRST}", ATTR{{driver_override}}="vfio-pci"
SUBSYSTEM=="pci", KERNEL=="{SECOND}", ATTR{{driver_override}}="vfio-pci"
"""
FILES = {
    "/etc/modprobe.d/vfio.conf": VFIO,
    "/etc/modules-load.d/vfio.conf": "vfio\nvfio_pci\nvfio_iommu_type1\n",
    "/etc/initramfs-tools/modules": "# List of modules\nvfio-pci ids=10de:2230,10de:1aef\n",
    "/etc/udev/rules.d/10-vfio.rules": RULES,
    "/etc/default/grub": GRUB,
}


def machine(*gpus: str) -> Machine:
    return Machine(
        name="box",
        reboot="allowed",
        gpus=[Gpu(bdf=bdf, model="RTX A6000") for bdf in gpus or (FIRST, SECOND)],
        driver=Driver(version=VERSION, flavour="open", route="prebuilt"),
    )


def piled(host: Seen) -> Seen:
    """Both GPUs with their audio functions on vfio-pci, each pair its own group, held by every kind of place."""
    for number, bdf in enumerate((FIRST, SECOND), 1):
        host.gpu(bdf, "vfio-pci", str(number), "vfio-pci")
        host.audio(f"{bdf[:-1]}1", "vfio-pci", str(number))
    for path, text in FILES.items():
        host.put("file", path, text)
    host.put("file", "/etc/modprobe.d/nouveau.conf", "# nothing\n").put(
        "file", "/proc/driver/nvidia/version", None
    )
    return host


def written(host: Seen, items: Iterable[Item]) -> Seen:
    """The files of the plan are on the machine, and what is made from them is not made anew yet."""
    (item,) = (item for item in items if item.kind == "release.files")
    assert isinstance(item.payload, Edits)
    for edit in item.payload.files:
        host.put("file", edit.path, None if edit.gone else edit.data)
    return host.put("file", boot.REGENERATE, "")


def regenerated(host: Seen) -> Seen:
    return host.put("file", boot.REGENERATE, None)


def switched(host: Seen, bdf: str) -> Seen:
    number = bdf[6]
    return host.gpu(bdf, "", number).audio(f"{bdf[:-1]}1", "snd_hda_intel", number)


def loaded(host: Seen, *gpus: str) -> Seen:
    for bdf in gpus or (FIRST, SECOND):
        host.gpu(bdf, "nvidia", bdf[6])
    return host.put("file", "/proc/driver/nvidia/version", LOADED)


def installed(host: Seen) -> Seen:
    return host.driver(VERSION)


def noded(host: Seen, *gpus: str, of: Machine | None = None) -> Seen:
    """The driver's minors are known, the boot unit is enabled and has made the nodes."""
    for minor, bdf in enumerate(gpus or (FIRST, SECOND)):
        information = f"Model: \t\t NVIDIA RTX A6000\nDevice Minor: \t {minor}\n"
        host.put("file", f"/proc/driver/nvidia/gpus/{bdf}/information", information)
    devices = "Character devices:\n195 nvidia\n508 nvidia-uvm\n\nBlock devices:\n"
    return host.put("file", "/proc/devices", devices).served(of or machine(*gpus))
