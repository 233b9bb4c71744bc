"""Hook scripts of Proxmox's virtual machines, ``hookscript: STORAGE:snippets/NAME``: run before and after a start and a
stop, often to bind or to unbind functions by hand. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from checks.snapshot import CouldNotLook, Snapshot
from provision.host.binding import binding
from provision.host.vms import grammar, proxmox


@dataclass(frozen=True)
class Hook:
    """``where``: path:line of the virtual machine's definition. ``script`` is the path of the file where it could be
    looked at and binds functions; ``line`` is where it does."""

    vmid: str
    where: str
    value: str
    script: str | None = None
    line: int = 0
    text: str = ""

    @property
    def binds(self) -> bool:
        return self.script is not None

    def __str__(self) -> str:
        does = (
            f"it binds functions: {self.script}:{self.line}: {self.text.strip()}"
            if self.binds
            else "it runs at every start and stop, and no line that binds functions was seen in it"
        )
        return f"{self.where}: hookscript {self.value} of virtual machine {self.vmid}: {does}"


def hooks(snapshot: Snapshot) -> tuple[Hook, ...]:
    """The hook scripts of this node's virtual machines."""
    found = []
    for path, _, vmid in proxmox.local_definitions(snapshot):
        setting = grammar.settings(proxmox.text_of(snapshot, path)).get((grammar.CURRENT, "hookscript"))
        if setting is not None:
            found.append(_hook(snapshot, vmid, f"{path}:{setting.line}", setting.value))
    return tuple(found)


def _hook(snapshot: Snapshot, vmid: str, where: str, value: str) -> Hook:
    """The storage's folder is not resolved: a snippet of this name, in whichever folder, is taken for it."""
    name = re.split(r"[:/]", value)[-1]
    for path in sorted(snapshot.paths("file")):
        if not path.endswith(f"/snippets/{name}"):
            continue
        try:
            line = binding(snapshot.text(path) or "")
        except CouldNotLook:
            continue
        if line is not None:
            return Hook(vmid, where, value, path, *line)
    return Hook(vmid, where, value)
