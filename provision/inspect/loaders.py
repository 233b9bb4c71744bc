"""Which boot loader starts the machine, where its command line is written, and what makes that count. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from checks.snapshot import CouldNotLook
from provision.host import boot
from provision.inspect.look import Look
from provision.inspect.texts import Texts

REFRESH = "proxmox-boot-tool refresh"


@dataclass(frozen=True)
class Loader:
    """``edit``: the file that holds the command line of the next boot; ``then``: what has to be run after an edit."""

    name: str
    edit: str
    then: str
    seen: str

    def as_dict(self) -> dict[str, str]:
        return {"name": self.name, "edit": self.edit, "then": self.then, "seen": self.seen}


def loaders(look: Look, texts: Texts) -> tuple[Loader, ...]:
    """All boot loaders of which there is a sign. Raises CouldNotLook when there is none."""
    found: dict[str, Loader] = {}
    managed: bool | None = None
    for output in texts.of("proxmox-boot-tool"):
        if "proxmox-boot-uuids does not exist" in output.text:
            managed = False
        for loader in _of_partitions(output.text):
            managed = True
            found.setdefault(loader.name, loader)
    uuids = look.attempt("boot partitions", lambda: look.snapshot.text(boot.PROXMOX_LOADERS))
    managed = True if uuids is not None and managed is None else managed
    if not found:
        for loader in _of_firmware(texts):
            found.setdefault(loader.name, loader)
    if not found and managed is False:
        said = (
            f"proxmox-boot-tool keeps no boot partition ({boot.PROXMOX_LOADERS} does not exist): plain GRUB"
        )
        found["grub"] = Loader("grub", "/etc/default/grub", "update-grub", said)
    if not found:
        for loader in _of_files(look, managed):
            found.setdefault(loader.name, loader)
    if not found:
        raise CouldNotLook(
            "nothing was recorded that tells the boot loader"
            if look.recorded
            else "neither GRUB's files nor proxmox-boot-tool nor efibootmgr tell the boot loader"
        )
    return tuple(found.values())


def _of_partitions(text: str) -> Iterator[Loader]:
    for line in text.splitlines():
        partition = re.match(r"(?:WARN: )?(\S+) is configured with: (.*)", line)
        if partition is None:
            continue
        for name, _ in re.findall(r"\b(uefi|grub)\b(?: \(versions: ([^)]*)\))?", partition[2]):
            if name == "uefi":
                yield Loader("systemd-boot", "/etc/kernel/cmdline", REFRESH, line.strip())
            else:
                yield Loader(
                    "grub", "/etc/default/grub", f"update-grub (it runs {REFRESH} too)", line.strip()
                )


def _of_firmware(texts: Texts) -> Iterator[Loader]:
    """The entry that the firmware booted: ``BootCurrent`` and its file (efibootmgr(8))."""
    for output in texts.of("efibootmgr"):
        current = re.search(r"^BootCurrent: ([0-9A-Fa-f]{4})", output.text, re.MULTILINE)
        entry = re.search(rf"^Boot{current[1]}\*? ?(.*)$", output.text, re.MULTILINE) if current else None
        if entry is None or current is None:
            continue
        file = entry[1].lower()
        said = f"BootCurrent {current[1]}: {' '.join(entry[1].split())}"
        if "systemd-boot" in file or "\\systemd\\" in file:
            yield Loader("systemd-boot", "/etc/kernel/cmdline", REFRESH, said)
        elif "shim" in file:
            yield Loader("grub", "/etc/default/grub", "update-grub", f"{said}: shim, which starts GRUB")
        elif "grub" in file:
            yield Loader("grub", "/etc/default/grub", "update-grub", said)


def _of_files(look: Look, managed: bool | None) -> Iterator[Loader]:
    snapshot = look.snapshot
    try:
        grub, line = snapshot.text("/etc/default/grub"), snapshot.text("/etc/kernel/cmdline")
    except CouldNotLook:
        return
    if managed and line is not None:
        yield Loader(
            "systemd-boot", "/etc/kernel/cmdline", REFRESH, f"{boot.PROXMOX_LOADERS} and /etc/kernel/cmdline"
        )
    entries = sorted(snapshot.files(*boot.ENTRIES))
    if entries:
        # Debian's hook of systemd-boot makes them anew with each initramfs (kernel-install(8)).
        yield Loader("systemd-boot", "/etc/kernel/cmdline", "update-initramfs -u", f"{entries[0]} is there")
    if grub is not None:
        then = f"update-grub (it runs {REFRESH} too)" if managed else "update-grub"
        yield Loader("grub", "/etc/default/grub", then, "/etc/default/grub is there")
