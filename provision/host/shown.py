"""Which places a recorded tree shows: what it lacks, and does not call absent, was not looked at. Pure."""

from __future__ import annotations

from checks.snapshot import CouldNotLook, Snapshot

PLACES = (
    ("modprobe.d", ("/etc/modprobe.d",)),
    ("lists of modules", ("/etc/modules", "/etc/modules-load.d")),
    ("initramfs-tools", ("/etc/initramfs-tools",)),
    ("dracut", ("/etc/dracut.conf.d",)),
    ("udev rules", ("/etc/udev/rules.d",)),
    ("driverctl", ("/etc/driverctl.d",)),
    ("systemd units", ("/etc/systemd/system",)),
    ("configured command line", ("/etc/default/grub", "/etc/kernel/cmdline", "/etc/default/grub.d")),
    ("virtual machines of Proxmox", ("/etc/pve/qemu-server", "/etc/pve/nodes", "/etc/pve")),
    ("virtual machines of libvirt", ("/etc/libvirt/qemu",)),
)
"""What is configured there, and the paths of which any one shows that it was looked at."""

NEEDED = ("/proc/cmdline", "/etc/modprobe.d")
"""Without these nothing is decided: every machine has them."""

PATHS = tuple(
    dict.fromkeys([path for _, paths in PLACES for path in paths] + [*NEEDED, "/etc/pve/mapping/pci.cfg"])
)


def needed(snapshot: Snapshot) -> None:
    """Raises CouldNotLook when a record lacks what every decision needs."""
    lacking = [path for path in NEEDED if not snapshot.shows(path)]
    if lacking:
        raise CouldNotLook(
            f"the record does not show {' and '.join(lacking)}, without which nobody can tell what holds the GPUs"
        )


def notes(snapshot: Snapshot) -> list[str]:
    """One line with all that a record does not show; none for a machine."""
    lacking = [name for name, paths in PLACES if not any(map(snapshot.shows, paths))]
    return [f"this record does not show: {', '.join(lacking)}; what is there is not known"] if lacking else []
