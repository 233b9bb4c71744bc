"""What decides how a host boots, as the planner sees it: configuration files, kernels, modules, openers. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from checks.snapshot import CouldNotLook, Snapshot
from provision.host import vms

REGENERATE = "/var/lib/kpro/regenerate"
"""Present while files of the boot configuration were written and what is made from them was not made anew."""

ASSIGNED = "/var/lib/kpro/assigned.json"
"""Which GPUs ``provision assign`` handed over to virtual machines (provision.host.assigned)."""

PROXMOX_LOADERS = "/etc/kernel/proxmox-boot-uuids"
"""The boot partitions that proxmox-boot-tool keeps; without it the boot loader is plain GRUB."""

_MODPROBE = ("/etc/modprobe.d", "/run/modprobe.d", "/usr/local/lib/modprobe.d", "/usr/lib/modprobe.d")
_LISTS = (
    "/etc/modules-load.d",
    "/run/modules-load.d",
    "/usr/local/lib/modules-load.d",
    "/usr/lib/modules-load.d",
)
_RULES = ("/etc/udev/rules.d", "/run/udev/rules.d", "/usr/local/lib/udev/rules.d", "/usr/lib/udev/rules.d")

# Links of /proc/PID/fd lead to what a process has open. A write to `unbind` that blocks is such a process too, and so
# is one that closed the group's file and kept the device.
_OPENERS = r"""
find /proc/[0-9]*/fd -maxdepth 1 \( -lname '/dev/vfio/*' -o -lname '/dev/nvidia*' -o -lname '*/unbind' \
  -o -lname 'anon_inode:*vfio-device*' \) -printf '%h %l\n' 2>/dev/null | sort -u | while read -r folder target; do
  pid=${folder#/proc/} pid=${pid%/fd}
  printf '%s\t%s\t%s\n' "$pid" "$target" "$(tr '\0\n\t' '   ' <"/proc/$pid/cmdline" 2>/dev/null)"
done
"""
_KERNEL_LOG = r"dmesg 2>&1 | grep -E '^dmesg: |NVRM: Xid .*[ ,]154,' | tail -n 50"

REQUESTS = [
    *(f"glob:{folder}/*.conf" for folder in (*_MODPROBE, *_LISTS)),
    *(f"glob:{folder}/*.rules" for folder in _RULES[:-1]),
    f"with:vfio|pci-stub|driver_override:{_RULES[-1]}/*.rules",
    "file:/etc/modules",
    "file:/etc/initramfs-tools/modules",
    "glob:/etc/initramfs-tools/hooks/*",
    "glob:/etc/initramfs-tools/scripts/*/*",
    "glob:/etc/driverctl.d/*",
    "file:/etc/default/grub",
    "tool:update-grub",
    "glob:/etc/default/grub.d/*.cfg",
    "file:/etc/kernel/cmdline",
    f"file:{PROXMOX_LOADERS}",
    "file:/etc/kernel/proxmox-boot-pin",
    "file:/etc/kernel/next-boot-pin",
    "file:/boot/grub/grubenv",
    "names:/boot/vmlinuz-*",
    "names:/lib/modules/*",
    "file:/proc/modules",
    "file:/proc/fb",
    "file:/sys/module/nvidia/version",
    f"file:{REGENERATE}",
    "file:/var/lib/kpro/manifest.json",
    f"cmd:openers:{_OPENERS}",
    f"cmd:kernel-log:{_KERNEL_LOG}",
    *vms.REQUESTS,
]


@dataclass(frozen=True)
class Opener:
    """A process that has a file of /dev/vfio, /dev/nvidia*, a device of VFIO or a driver's ``unbind`` open."""

    pid: int
    target: str
    command: str

    def __str__(self) -> str:
        return f"process {self.pid} ({self.command or 'no command line'})"


def openers(snapshot: Snapshot) -> tuple[Opener, ...]:
    """Raises CouldNotLook when the processes could not be listed."""
    code, output = snapshot.command("openers")
    found = []
    for line in filter(str.strip, output.splitlines()):
        words = line.split("\t", 2)
        if len(words) != 3 or not words[0].isdecimal():
            raise CouldNotLook(f"the list of open device files is unreadable: {line[:120]!r}")
        found.append(Opener(int(words[0]), words[1], words[2].strip()))
    if code != 0:
        raise CouldNotLook(f"the open device files could not be listed: exit {code}")
    return tuple(found)


@dataclass(frozen=True)
class Module:
    """A loaded kernel module: how often it is used, and by which other modules."""

    name: str
    uses: int
    holders: tuple[str, ...]

    @property
    def in_use(self) -> bool:
        """By something else than other modules: a process, a console."""
        return self.uses > len(self.holders)


def modules(snapshot: Snapshot) -> dict[str, Module]:
    """The lines of /proc/modules: name, size, uses, holders with commas, state, address."""
    text = snapshot.text("/proc/modules")
    if text is None:
        raise CouldNotLook("/proc/modules is not there")
    found = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 4 and words[2].isdecimal():
            holders = tuple(name for name in words[3].split(",") if name and name != "-")
            found[words[0]] = Module(words[0], int(words[2]), holders)
    return found


def running_kernel(snapshot: Snapshot) -> str:
    code, output = snapshot.command("uname-r")
    if code != 0 or not output.strip():
        raise CouldNotLook("uname -r gave nothing")
    return output.strip()


def kernels(snapshot: Snapshot) -> tuple[str, ...]:
    """The installed kernels, oldest first: those that have an image in /boot and modules."""
    images = {path.removeprefix("/boot/vmlinuz-") for path in _names(snapshot, "/boot/vmlinuz-*")}
    return tuple(sorted(images & set(module_trees(snapshot)), key=_release))


def module_trees(snapshot: Snapshot) -> tuple[str, ...]:
    """The kernels that have a folder of modules."""
    return tuple(path.rsplit("/", 1)[1] for path in _names(snapshot, "/lib/modules/*"))


def _names(snapshot: Snapshot, pattern: str) -> list[str]:
    return (snapshot.data("names", pattern) or b"").decode(errors="surrogateescape").split()


def _release(kernel: str) -> tuple[tuple[int, ...], str]:
    return tuple(int(number) for number in re.findall(r"\d+", kernel)), kernel


def next_kernel(snapshot: Snapshot) -> str | None:
    """The kernel that boots next, None where that cannot be told.

    proxmox-boot-tool's pins win; GRUB boots the newest with GRUB_DEFAULT=0, the entry of grubenv with ``saved``, and
    otherwise what its menu makes of a title, which is told only where it names an installed kernel.
    """
    installed = kernels(snapshot)
    for pin in ("/etc/kernel/next-boot-pin", "/etc/kernel/proxmox-boot-pin"):
        pinned = (snapshot.text(pin) or "").strip()
        if pinned:
            return pinned if pinned in installed else None
    if not installed:
        return None
    default = "0"
    if snapshot.text(PROXMOX_LOADERS) is None:
        for line in (snapshot.text("/etc/default/grub") or "").splitlines():
            match = re.match(r"\s*GRUB_DEFAULT=(['\"]?)(.*?)\1\s*(?:#.*)?$", line)
            default = match[2] if match else default
    if default == "saved":
        match = re.search(r"^saved_entry=(.*)$", snapshot.text("/boot/grub/grubenv") or "", re.MULTILINE)
        default = match[1] if match and match[1] else "0"
    if default == "0":
        return installed[-1]
    named = [kernel for kernel in installed if re.search(rf"(?<![\w.]){re.escape(kernel)}(?![\w.])", default)]
    return named[-1] if named else None


def files_of(snapshot: Snapshot, folders: tuple[str, ...], end: str = "") -> dict[str, str]:
    """The texts that take effect of a family of folders, by path: a file masks those of its name in later folders."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for folder in folders:
        for path in sorted(snapshot.paths("file")):
            name = path.removeprefix(f"{folder}/")
            if path == f"{folder}/{name}" and "/" not in name and name.endswith(end) and name not in taken:
                taken.add(name)
                found[path] = text_of(snapshot, path) or ""
    return found


def text_of(snapshot: Snapshot, path: str) -> str | None:
    """A configuration file as text from which the same bytes can be made again."""
    data = snapshot.file(path)
    return None if data is None else data.decode(errors="surrogateescape")


def kernel_log(snapshot: Snapshot) -> tuple[str, ...]:
    """The lines of the kernel's log that ask for a reboot. Raises CouldNotLook when the log cannot be read."""
    _, output = snapshot.command("kernel-log")
    lines = tuple(line for line in output.splitlines() if line.strip())
    if any(line.startswith("dmesg: ") for line in lines):
        raise CouldNotLook(f"the kernel's log: {lines[0]}")
    return lines


def modprobe_files(snapshot: Snapshot) -> dict[str, str]:
    return files_of(snapshot, _MODPROBE, ".conf")


def module_lists(snapshot: Snapshot) -> dict[str, str]:
    found = files_of(snapshot, _LISTS, ".conf")
    if is_link(snapshot, "/etc/modules-load.d/modules.conf"):
        # Debian's link to /etc/modules, which is read below.
        found.pop("/etc/modules-load.d/modules.conf", None)
    for path in ("/etc/modules", "/etc/initramfs-tools/modules"):
        text = text_of(snapshot, path)
        if text is not None:
            found[path] = text
    return found


def udev_rules(snapshot: Snapshot) -> dict[str, str]:
    return files_of(snapshot, _RULES, ".rules")


def is_link(snapshot: Snapshot, path: str) -> bool:
    return ("linked", path) in snapshot.sections


def command_lines(snapshot: Snapshot) -> dict[str, str]:
    """The files that the kernel's command line of the next boot is made of."""
    paths = ["/etc/default/grub", "/etc/kernel/cmdline"]
    paths += [path for path in snapshot.paths("file") if path.startswith("/etc/default/grub.d/")]
    found = {path: text_of(snapshot, path) for path in paths}
    return {path: text for path, text in found.items() if text is not None}


def driverctl(snapshot: Snapshot) -> dict[str, str]:
    return files_of(snapshot, ("/etc/driverctl.d",))


def initramfs_scripts(snapshot: Snapshot) -> dict[str, str]:
    """Hooks and scripts that the operator added to the initramfs."""
    return {
        path: text_of(snapshot, path) or ""
        for path in snapshot.paths("file")
        if path.startswith(("/etc/initramfs-tools/hooks/", "/etc/initramfs-tools/scripts/"))
    }
