"""What locks the GPUs of a test host into vfio-pci: the usual pile of configuration, as data.

Each row is one of the ways that guides for passthrough recommend; real hosts have them on top of each other.
"""

from __future__ import annotations

from dataclasses import dataclass

from .command import bdf

GPU, AUDIO = "10de:2230", "10de:1aef"
"""PCI ids of the RTX A6000 and of its audio function."""

BDFS = tuple(f"{bdf(gpu)[:-1]}{function}" for gpu in (0, 1) for function in (0, 1))
"""The functions of the first two emulated GPUs, as every test host numbers them."""

_MODULES = ("vfio", "vfio_iommu_type1", "vfio_pci")


@dataclass(frozen=True)
class Pile:
    """``ids`` are held by PCI id (so in every slot), ``bdfs`` by their place; blacklisted modules never load."""

    ids: tuple[str, ...] = ()
    bdfs: tuple[str, ...] = ()
    blacklisted: tuple[str, ...] = ()

    @property
    def command_line(self) -> tuple[str, ...]:
        """What the boot loader's command line carries."""
        return (f"vfio-pci.ids={','.join(self.ids)}",) if self.ids else ()

    @property
    def files(self) -> dict[str, str]:
        """Path -> text of the files under /etc."""
        made: dict[str, str] = {}
        if self.ids:
            made["/etc/modprobe.d/vfio.conf"] = _modprobe(self.ids)
        if self.ids or self.bdfs:
            made["/etc/modules-load.d/vfio.conf"] = "".join(f"{module}\n" for module in _MODULES)
        if self.bdfs:
            # Without ids nothing binds the device again after the rule, so the rule has to.
            made["/etc/udev/rules.d/10-vfio-gpu.rules"] = "".join(
                _rule(bdf, probe=not self.ids) for bdf in self.bdfs
            )
        if self.blacklisted:
            rows = "".join(f"blacklist {module}\n" for module in self.blacklisted)
            made["/etc/modprobe.d/blacklist-gpu.conf"] = rows
        return made

    @property
    def initramfs_modules(self) -> str:
        """Lines for /etc/initramfs-tools/modules."""
        return f"vfio\nvfio_iommu_type1\nvfio_pci ids={','.join(self.ids)}\n" if self.ids else ""


def _modprobe(ids: tuple[str, ...]) -> str:
    drivers = ("nvidia", "nouveau", "snd_hda_intel")
    return f"options vfio-pci ids={','.join(ids)}\n" + "".join(
        f"softdep {driver} pre: vfio-pci\n" for driver in drivers
    )


def _rule(bdf: str, *, probe: bool) -> str:
    rule = f'ACTION=="add", SUBSYSTEM=="pci", KERNEL=="{bdf}", ATTR{{driver_override}}="vfio-pci"'
    if probe:
        rule += f""", RUN+="/bin/sh -c 'echo {bdf} >/sys/bus/pci/drivers_probe'\""""
    return f"{rule}\n"


PILES = {
    "full": Pile(ids=(GPU, AUDIO), bdfs=BDFS, blacklisted=("nouveau", "nvidia")),
    "none": Pile(),
    # By place only: an id would hold the other GPU too.
    "one": Pile(bdfs=BDFS[2:], blacklisted=("nouveau", "nvidia")),
    "audio-free": Pile(ids=(GPU,), bdfs=BDFS[::2], blacklisted=("nouveau", "nvidia")),
    "nouveau": Pile(ids=(AUDIO,), bdfs=BDFS[1::2], blacklisted=("nvidia",)),
}
"""By name. ``audio-free`` leaves the audio functions to snd_hda_intel, ``nouveau`` the GPUs to nouveau."""
