"""Lines that look as if they held a GPU and do not: modules that are only loaded, names that are no module. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from checks.snapshot import CouldNotLook
from provision.host import boot
from provision.host.release import lists as grammar
from provision.host.release import modprobe
from provision.host.release.target import BINDERS, ids_of, module
from provision.inspect.look import Look
from provision.inspect.report import Finding

_VFIO = ("vfio", "vfio_iommu_type1", "vfio_pci", "vfio_virqfd")
_GONE = ("vfio_virqfd",)
_SOURCE = "kernel, drivers/vfio/pci/vfio_pci.c; modules-load.d(5)"


_OTHERS = ("nouveau", "nvidiafb", "radeon", "amdgpu")


def kept(look: Look) -> Iterator[Finding]:
    """Lines that stay though they are about a GPU's drivers: they keep other drivers than NVIDIA's away, or are no
    lines at all."""
    try:
        files = boot.modprobe_files(look.snapshot)
        lines = boot.command_lines(look.snapshot)
    except CouldNotLook:
        return
    for path, text in files.items():
        for number, _, line in modprobe.logical_lines(text):
            words = modprobe.words_of(line)
            if (
                words[:1] == ["options"]
                and "ids=" in line
                and module(words[1]) in BINDERS
                and not ids_of(line)
            ):
                yield Finding(
                    "modprobe.typo",
                    "warning",
                    f"{path}:{number}",
                    line.strip(),
                    "no id is in it: ids are VENDOR:DEVICE in hex without single quotes, an address is none; it binds "
                    "nothing",
                    f"take the line out of {path}",
                    "kernel, drivers/vfio/pci/vfio_pci.c, vfio_pci_fill_ids",
                )
            if (
                words[:1] in (["blacklist"], ["install"], ["alias"])
                and len(words) > 1
                and words[1] in _OTHERS
            ):
                meaning = f"it keeps {words[1]} off the GPUs: it is kept"
                yield Finding(
                    "modprobe.kept", "note", f"{path}:{number}", line.strip(), meaning, "", "modprobe.d(5)"
                )
    for path, text in lines.items():
        more = [number for number, line in enumerate(text.splitlines(), 1) if line.strip()][1:]
        if path == "/etc/kernel/cmdline" and more:
            yield Finding(
                "cmdline.more-lines",
                "warning",
                f"{path}:{more[0]}",
                text.splitlines()[more[0] - 1].strip(),
                "the file is to have one line: proxmox-boot-tool takes the first alone for the command line, "
                "kernel-install all of them, with what was to be a comment",
                f"put everything into one line of {path}",
                "Proxmox VE administration guide, 'Editing the Kernel Commandline'; kernel-install(8)",
            )
        for number, line in enumerate(text.splitlines(), 1):
            if line.lstrip().startswith("#") and "GRUB_CMDLINE_LINUX" in line:
                meaning = "a comment: it has no effect, and is kept as it is"
                yield Finding(
                    "grub.comment", "note", f"{path}:{number}", line.strip(), meaning, "", "GRUB manual"
                )


def findings(look: Look) -> Iterator[Finding]:
    """What the lists of modules load of vfio without giving it ids."""
    try:
        found = boot.module_lists(look.snapshot)
    except CouldNotLook:
        return
    for path, text in found.items():
        giving = {holder.line for holder in grammar.find(path, text)}
        for number, line in enumerate(text.split("\n"), 1):
            words = line.split("#")[0].split(";")[0].split()
            if not words or number in giving:
                continue
            name = words[0].replace("-", "_")
            where = f"{path}:{number}"
            if name in _VFIO:
                gone = "; since Linux 6.2 it is part of vfio and no module any more" if name in _GONE else ""
                yield Finding(
                    "list.loads-only",
                    "note",
                    where,
                    line.strip(),
                    f"loading {words[0]} alone binds nothing: it has no ids{gone}",
                    "",
                    _SOURCE,
                )
            elif "=" in words[0] or words[0] == "options":
                yield Finding(
                    "list.typo",
                    "warning",
                    where,
                    line.strip(),
                    "a line begins with the name of a module, and no module is called so: it has no effect",
                    f"take the line out of {path}; options belong into modprobe.d: options vfio-pci ids=…",
                    _SOURCE,
                )
            elif near := get_close_matches(name, _VFIO, 1, 0.8):
                yield Finding(
                    "list.typo",
                    "warning",
                    where,
                    line.strip(),
                    f"no module is called {words[0]}: the line has no effect, and systemd-modules-load fails "
                    f"({near[0]} is one)",
                    f"take the line out of {path}",
                    _SOURCE,
                )
