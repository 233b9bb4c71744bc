"""What decides how a host boots, as the planner sees it: configuration files, kernels, modules, openers. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from checks.snapshot import CouldNotLook, Snapshot
from provision.host import vms
from provision.host.binding import BINDING
from provision.host.openers import LOOK as _LOOK
from provision.host.openers import Opener as Opener
from provision.host.openers import openers as openers

REGENERATE = "/var/lib/kpro/regenerate"
"""Present while files of the boot configuration were written and what is made from them was not made anew."""

ASSIGNED = "/var/lib/kpro/assigned.json"
"""Which GPUs ``provision assign`` handed over to virtual machines (provision.host.assigned)."""

PROXMOX_LOADERS = "/etc/kernel/proxmox-boot-uuids"
"""The boot partitions that proxmox-boot-tool keeps; without it the boot loader is plain GRUB."""

_MODPROBE = (
    "/etc/modprobe.d",
    "/run/modprobe.d",
    "/usr/local/lib/modprobe.d",
    "/usr/lib/modprobe.d",
    "/lib/modprobe.d",
)
_LISTS = (
    "/etc/modules-load.d",
    "/run/modules-load.d",
    "/usr/local/lib/modules-load.d",
    "/usr/lib/modules-load.d",
    "/lib/modules-load.d",
)
_RULES = (
    "/etc/udev/rules.d",
    "/run/udev/rules.d",
    "/usr/local/lib/udev/rules.d",
    "/usr/lib/udev/rules.d",
    "/lib/udev/rules.d",
)

ENTRIES = ("/boot/loader/entries/", "/boot/efi/loader/entries/", "/efi/loader/entries/")
"""Of systemd-boot (Boot Loader Specification); proxmox-boot-tool's lie on partitions that are not mounted."""

_DRACUT_FILE = "/etc/dracut.conf"
_DRACUT = ("/etc/dracut.conf.d", "/usr/lib/dracut/dracut.conf.d")
_INITRAMFS = ("/etc/initramfs-tools/", "/usr/share/initramfs-tools/")

KERNEL_LOG_TELLS = (
    r"^dmesg: |Xid .*[ ,]154,|: not ready [0-9]+ms after |(Unable to|can.t|Refused to) change power state|BAR1 is 0M|"
    r"Attempting to remove device|Continuing with GPU removal|"
    r"vfio-pci [0-9a-f.:]+ (enabling device|resetting|reset done)"
)
_KERNEL_LOG = f"dmesg 2>&1 | grep -iE '{KERNEL_LOG_TELLS}' | tail -n 500"

REQUESTS = [
    *(f"glob:{folder}/*.conf" for folder in (*_MODPROBE, *_LISTS)),
    *(f"glob:{folder}/*.rules" for folder in _RULES[:-2]),
    # Of what packages brought, only what can concern functions: one process for all of it.
    f"with:vfio|pci-stub|driver_override|nodedev-detach|driverctl:{_RULES[-2]}/*.rules {_RULES[-1]}/*.rules"
    f" {_DRACUT[1]}/*.conf"
    f" {_INITRAMFS[1]}hooks/* {_INITRAMFS[1]}scripts/*/*",
    "file:/etc/modules",
    "file:/etc/initramfs-tools/modules",
    "glob:/etc/initramfs-tools/hooks/*",
    "glob:/etc/initramfs-tools/scripts/*/*",
    f"file:{_DRACUT_FILE}",
    f"glob:{_DRACUT[0]}/*.conf",
    f"units:{BINDING}",
    "glob:/etc/driverctl.d/*",
    "file:/etc/default/grub",
    "tool:update-grub",
    "glob:/etc/default/grub.d/*.cfg",
    "file:/etc/kernel/cmdline",
    *(f"glob:{folder}*.conf" for folder in ENTRIES),
    f"file:{PROXMOX_LOADERS}",
    f"cmd:proxmox-boot-tool-status:test ! -e {PROXMOX_LOADERS} || proxmox-boot-tool status",
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
    f"cmd:openers:{_LOOK}",
    f"cmd:dmesg:{_KERNEL_LOG}",
    *vms.REQUESTS,
]


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
    text = text_of(snapshot, "/proc/modules")
    if text is None:
        raise CouldNotLook("/proc/modules is not there")
    found = {}
    for number, line in enumerate(filter(str.strip, text.splitlines()), 1):
        words = line.split()
        if len(words) < 4 or not words[1].isdecimal() or not words[2].isdecimal():
            raise CouldNotLook(
                f"/proc/modules is not readable as a list of modules: line {number}: {line[:80]!r}"
            )
        # What cannot be unloaded says so in this place: [permanent].
        holders = tuple(name for name in words[3].split(",") if name and name[0] not in "-[")
        found[words[0]] = Module(words[0], int(words[2]), holders)
    return found


def running_command_line(snapshot: Snapshot) -> str:
    """What the kernel was started with. Raises CouldNotLook where it says nothing: no kernel is started so."""
    text = text_of(snapshot, "/proc/cmdline")
    if text is None or not text.strip():
        raise CouldNotLook(f"/proc/cmdline {'is not there' if text is None else 'is empty'}")
    return text


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


def boot_partitions(snapshot: Snapshot) -> frozenset[str]:
    """What starts the machine from the partitions that proxmox-boot-tool keeps: ``uefi`` (systemd-boot), ``grub``, or
    both. Empty where it keeps none, or could not be asked."""
    try:
        _, output = snapshot.command("proxmox-boot-tool-status")
    except CouldNotLook:
        return frozenset()
    lines = re.findall(r"^\S.* is configured with: (.*)$", output, re.MULTILINE)
    return frozenset(name for line in lines for name in re.findall(r"\b(uefi|grub)\b", line))


def has_boot_partitions(snapshot: Snapshot) -> bool:
    """Does proxmox-boot-tool start this machine?"""
    return bool(boot_partitions(snapshot)) or snapshot.file(PROXMOX_LOADERS) is not None


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
    if not has_boot_partitions(snapshot):
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
        for path in sorted(snapshot.files(f"{folder}/")):
            name = path.removeprefix(f"{folder}/")
            if path == f"{folder}/{name}" and "/" not in name and name.endswith(end) and name not in taken:
                taken.add(name)
                found[path] = text_of(snapshot, path) or ""
    return found


def text_of(snapshot: Snapshot, path: str) -> str | None:
    """A configuration file as text from which the same bytes can be made again. Raises CouldNotLook."""
    return snapshot.plain(path)


def kernel_log(snapshot: Snapshot) -> tuple[str, ...]:
    """The lines of the kernel's log that tell of functions. Raises CouldNotLook when the log cannot be read."""
    _, output = snapshot.command("dmesg")
    lines = tuple(line for line in output.splitlines() if re.search(KERNEL_LOG_TELLS, line, re.IGNORECASE))
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


def dracut_files(snapshot: Snapshot) -> dict[str, str]:
    """The main file, and those of the folders, of which one masks those of its name in later ones (dracut.conf(5))."""
    main = text_of(snapshot, _DRACUT_FILE) if ("file", _DRACUT_FILE) in snapshot.sections else None
    return ({} if main is None else {_DRACUT_FILE: main}) | files_of(snapshot, _DRACUT, ".conf")


def udev_rules(snapshot: Snapshot) -> dict[str, str]:
    return files_of(snapshot, _RULES, ".rules")


def is_link(snapshot: Snapshot, path: str) -> bool:
    return ("linked", path) in snapshot.sections


def command_lines(snapshot: Snapshot) -> dict[str, str]:
    """The files that the kernel's command line of the next boot is made of."""
    paths = ["/etc/default/grub", "/etc/kernel/cmdline"]
    paths += snapshot.files("/etc/default/grub.d/", *ENTRIES)
    found = {path: text_of(snapshot, path) for path in paths}
    return {path: text for path, text in found.items() if text is not None}


def driverctl(snapshot: Snapshot) -> dict[str, str]:
    return files_of(snapshot, ("/etc/driverctl.d",))


def initramfs_scripts(snapshot: Snapshot) -> dict[str, str]:
    """Hooks and scripts of the initramfs: those that the operator added, and others that bind functions."""
    return {
        path: text_of(snapshot, path) or ""
        for path in snapshot.files(
            *(f"{folder}{kind}/" for folder in _INITRAMFS for kind in ("hooks", "scripts"))
        )
    }
