"""What ``inspect`` and ``record`` look at on a machine, whatever its inventory says. Pure."""

from __future__ import annotations

from provision.host import boot, driver_seen, nodes, reboot, view, vms
from provision.inspect import look
from provision.spec import Machine

FOLDERS = (
    "/etc/modprobe.d",
    "/etc/modules-load.d",
    "/etc/initramfs-tools",
    "/etc/dracut.conf.d",
    "/etc/udev/rules.d",
    "/etc/driverctl.d",
    "/etc/systemd/system",
    "/etc/default/grub.d",
    "/etc/pve/qemu-server",
    "/etc/pve/nodes",
    "/etc/pve/lxc",
    "/etc/libvirt/qemu",
    "/sys/class/iommu",
    "/sys/firmware/efi",
)
"""Whether these are there tells whether what could be in them was looked at."""

_LOG = (
    "dmesg 2>&1 | grep -E '^dmesg: |NVRM|[Nn]vidia|vfio|nouveau|AMD-Vi|DMAR|iommu|Key was rejected|"
    "module verification' | tail -n 1000"
)

_COMMANDS = (
    "cmd:dkms-status:dkms status",
    "cmd:proxmox-boot-tool-status:proxmox-boot-tool status",
    "cmd:mokutil-sb-state:mokutil --sb-state",
    "cmd:efibootmgr-v:efibootmgr -v",
    f"cmd:dmesg:{_LOG}",
)
_TOOLS = ("qm", "pct", "dkms", "proxmox-boot-tool", "update-grub", "mokutil", "virsh", "lxc-ls", "driverctl")

_TREE = (f"file:{look.ABSENT}", "glob:/.kpro/cmd/*.out", "glob:/.kpro/cmd/*.rc")


def requests(machine: Machine | None = None, recorded: bool = False) -> list[str]:
    """For a machine of an inventory, or any. ``recorded``: a tree, whose texts may have any name."""
    named = machine or Machine(name="host")
    managed = named if named.managed else named.model_copy(update={"managed": True})
    wanted = [
        *view.requests(managed),
        *boot.REQUESTS,
        *driver_seen.requests(),
        *nodes.requests(managed),
        *reboot.requests(managed),
        "file:/etc/hostname",
        "file:/etc/debian_version",
        "glob:/etc/pve/lxc/*.conf",
        "glob:/etc/pve/nodes/*/lxc/*.conf",
        *vms.REQUESTS,
        "file:/etc/pve/mapping/pci.cfg",
        "glob:/var/lib/lxc/*/config",
        "names:/proc/driver/nvidia-nvswitch/devices/*",
        *(f"dir:{folder}" for folder in FOLDERS),
        *(f"tool:{tool}" for tool in _TOOLS),
        *_COMMANDS,
        *(_TREE if recorded else ()),
    ]
    return list(dict.fromkeys(wanted))
