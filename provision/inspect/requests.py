"""What ``inspect`` and ``record`` look at on a machine, whatever its inventory says. Pure."""

from __future__ import annotations

from collections.abc import Sequence

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
    "/etc/pve",
    "/etc/pve/qemu-server",
    "/etc/pve/nodes",
    "/etc/pve/lxc",
    "/etc/libvirt/qemu",
    "/var/lib/lxc",
    "/boot",
    "/sys/class/iommu",
    "/sys/firmware/efi",
)
"""Whether these are there tells whether what could be in them was looked at."""

_LOG = (
    "dmesg 2>&1 | grep -iE '^dmesg: |NVRM|nvidia|vfio|nouveau|AMD-Vi|DMAR|iommu|Key was rejected|"
    f"module verification|{boot.KERNEL_LOG_TELLS}' | tail -n 1000"
)

_COMMANDS = (
    "cmd:dkms-status:dkms status",
    "cmd:proxmox-boot-tool-status:proxmox-boot-tool status",
    "cmd:mokutil-sb-state:mokutil --sb-state",
    "cmd:efibootmgr-v:efibootmgr -v",
    "cmd:lsmod:lsmod",
)
_TOOLS = ("qm", "pct", "dkms", "proxmox-boot-tool", "update-grub", "mokutil", "virsh", "lxc-ls", "driverctl")

RECORDED = (
    "cmd:dpkg-l:dpkg -l",
    "cmd:lspci-Dnn:lspci -Dnn",
    "cmd:pveversion:pveversion -v",
    "cmd:qm-list:qm list",
    "cmd:pct-list:pct list",
    "cmd:lxc-ls:lxc-ls -1",
    "cmd:lxc-path:lxc-config lxc.lxcpath",
    "cmd:date:date +%s",
    "cmd:nvidia-smi-L:timeout 20 nvidia-smi -L",
    "file:/proc/meminfo",
    "file:/proc/sys/kernel/osrelease",
    "file:/proc/sys/kernel/hostname",
)
"""What a record has beside what is looked at for an inspection: for whoever reads it later."""

_TREE = (f"file:{look.ABSENT}", "glob:/.kpro/cmd/*.out", "glob:/.kpro/cmd/*.rc")


def requests(machine: Machine | None = None, recorded: bool = False) -> list[str]:
    """For a machine of an inventory, or any. ``recorded``: a tree, whose texts may have any name."""
    named = machine or Machine(name="host")
    managed = named if named.managed else named.model_copy(update={"managed": True})
    wanted = [
        f"cmd:dmesg:{_LOG}",
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
    return once(wanted)


def once(wanted: Sequence[str]) -> list[str]:
    """Each look once; of two commands of one name the first, since a snapshot has one section for both."""
    found: dict[str, str] = {}
    for request in wanted:
        kind, _, rest = request.partition(":")
        key = f"cmd:{rest.partition(':')[0]}" if kind == "cmd" else request
        found.setdefault(key, request)
    return list(found.values())
