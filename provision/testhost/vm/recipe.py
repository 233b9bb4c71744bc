"""What the disk of a test host holds: packages, files, boot loader. Values only."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from checks.testhost import MARKER, PRODUCT

from .pile import PILES, Pile

PACKAGES = (
    "ca-certificates",
    "dbus",
    "grub-pc-bin",
    "grub2-common",
    "ifupdown",
    "initramfs-tools",
    "iproute2",
    "isc-dhcp-client",
    "kmod",
    "linux-image-amd64",
    "lxc",
    "openssh-server",
    "pciutils",
    "procps",
    "psmisc",
    "python3",
    "systemd-sysv",
    "udev",
    "uidmap",
    "zstd",
)
"""No NVIDIA driver and no compiler: a deploy has to bring the driver, as on a bare host."""

DISK_BYTES = 8 << 30
NAME = "kpro-vm"
_SPACE = uuid.UUID("5d1f0e3c-7f52-4d0b-9d7a-6d2a4f3f8d11")

# Upkeep that a machine of a few minutes has no use for, and that is slow when emulated.
_MASKED = (
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
)

# Emulated processors: the mitigations cost much and protect nothing; without a word on it the kernel takes the slow
# HPET for its clock; and on a busy machine its test of the timer panics ("timer doesn't work through
# Interrupt-remapped IO-APIC"), because QEMU does not get to tick within those few milliseconds.
_KERNEL = (
    "intel_iommu=on",
    "iommu=pt",
    "net.ifnames=0",
    "console=ttyS0",
    "mitigations=off",
    "tsc=reliable",
    "no_timer_check",
)

# Hotplug: for an interface that is "auto" the boot would wait until udev has seen every device.
_INTERFACES = "auto lo\niface lo inet loopback\nallow-hotplug eth0\niface eth0 inet dhcp\n"

_GRUB_DEFAULT = """\
GRUB_DEFAULT=0
GRUB_TIMEOUT=0
GRUB_DISTRIBUTOR="Debian"
GRUB_CMDLINE_LINUX_DEFAULT="quiet"
GRUB_CMDLINE_LINUX="{line}"
GRUB_TERMINAL="console"
GRUB_DISABLE_OS_PROBER=true
"""

_GRUB_CFG = """\
set timeout=0
menuentry 'Debian GNU/Linux' {{
	insmod part_msdos
	insmod ext2
	search --no-floppy --fs-uuid --set=root {fs}
	linux	/boot/vmlinuz-{kernel} root=UUID={fs} ro {line} quiet
	initrd	/boot/initrd.img-{kernel}
}}
"""


@dataclass(frozen=True)
class Recipe:
    """``suite`` without its security archive, ``packages`` from it, and the pile that locks the GPUs."""

    suite: str = "bookworm"
    pile: Pile = PILES["full"]
    packages: tuple[str, ...] = PACKAGES

    @property
    def line(self) -> str:
        """The kernel's command line, without root= and quiet."""
        return " ".join((*_KERNEL, *self.pile.command_line))


@dataclass(frozen=True)
class Identity:
    """Public keys of a cache: whom the test host lets in, and (with its private half) who it is."""

    login: str
    host_private: str
    host_public: str


def digest(*parts: object) -> str:
    """Sixteen hex digits of the content of ``parts``."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def uuids(of: str) -> tuple[str, str]:
    """UUIDs of the test host and of its file system: the same for the same content."""
    return str(uuid.uuid5(_SPACE, of)), str(uuid.uuid5(_SPACE, f"{of}/fs"))


def files(recipe: Recipe, identity: Identity, marker: str, fs_uuid: str) -> dict[str, tuple[int, str]]:
    """Path -> mode and text of what is laid over the installed packages before the first initramfs."""
    made = {
        "/etc/hostname": f"{NAME}\n",
        "/etc/hosts": f"127.0.0.1 localhost\n127.0.1.1 {NAME}\n",
        "/etc/network/interfaces": _INTERFACES,
        "/etc/fstab": f"UUID={fs_uuid} / ext4 defaults 0 1\n",
        "/etc/ssh/ssh_host_ed25519_key.pub": identity.host_public,
        "/etc/ssh/sshd_config.d/kpro.conf": "UseDNS no\nPasswordAuthentication no\n",
        "/etc/default/grub": _GRUB_DEFAULT.format(line=recipe.line),
        "/etc/initramfs-tools/modules": recipe.pile.initramfs_modules,
        **recipe.pile.files,
    }
    return {
        **{path: (0o644, text) for path, text in made.items()},
        "/root/.ssh/authorized_keys": (0o600, identity.login),
        "/etc/ssh/ssh_host_ed25519_key": (0o600, identity.host_private),
        MARKER: (0o444, f"{PRODUCT} {marker}\n"),
    }


def links() -> Mapping[str, str]:
    """Path -> target of symbolic links: units that never start."""
    return {f"/etc/systemd/system/{unit}": "/dev/null" for unit in _MASKED}


def grub_cfg(recipe: Recipe, kernel: str, fs_uuid: str) -> str:
    """GRUB's first configuration, what update-grub would write; the guest's own update-grub replaces it."""
    return _GRUB_CFG.format(fs=fs_uuid, kernel=kernel, line=recipe.line)


SLIM_INITRAMFS = ("/etc/initramfs-tools/conf.d/kpro", "MODULES=dep\nCOMPRESSLEVEL=1\n")
"""For the initramfs that the guest makes itself: Debian's defaults take it four minutes when emulated."""
