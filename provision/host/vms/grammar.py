"""The file of a Proxmox virtual machine, ``<vmid>.conf``, as qemu-server reads it (PVE/QemuServer.pm,
``parse_vm_config``). Pure.

Blank lines mean nothing; a line that begins with ``#`` is the description; ``[PENDING]``, in any case, begins what the
next start applies, ``[name]`` of a letter and at least one more begins a snapshot; what follows any other line in
brackets, ``[special:…]`` or one with a blank in it, is passed over up to the next of them; everything else is
``key: value``, white space around the value being no part of it. Of a key that stands twice in a section the last wins.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

CURRENT = ""
PENDING = "[PENDING]"
"""How the two sections without a name of their own are called here; snapshots have theirs."""

_SECTION = re.compile(r"\[([^\]]*)\]\s*", re.ASCII)
_SNAPSHOT = re.compile(r"[a-z][a-z0-9_-]+", re.IGNORECASE | re.ASCII)
_SETTING = re.compile(r"([A-Za-z][A-Za-z_-]*[0-9]*):\s*(.*?)\s*")
_TRUE = ("1", "on", "yes", "true")


@dataclass(frozen=True)
class Setting:
    """One setting of a section; ``line`` counts from 1."""

    section: str
    key: str
    value: str
    line: int


def settings(text: str) -> dict[tuple[str, str], Setting]:
    """What the file sets, by section and key."""
    found = {}
    section: str | None = CURRENT
    for number, line in enumerate(text.split("\n"), 1):
        header = _SECTION.fullmatch(line)
        if header is not None:
            known = header[1] if _SNAPSHOT.fullmatch(header[1]) else None
            section = PENDING if header[1].upper() == "PENDING" else known
        elif section is None:
            continue
        elif (match := _SETTING.fullmatch(line)) is not None and not line.startswith("#"):
            found[section, match[1]] = Setting(section, match[1], match[2], number)
    return found


def is_true(value: str | None) -> bool:
    return value is not None and value.lower() in _TRUE


def deleted(text: str) -> frozenset[str]:
    """The keys that the next start takes out: ``delete: hostpci0,!net1`` of the pending section."""
    return frozenset(word.lstrip("!") for word in re.split(r"[,;\s]+", text) if word.lstrip("!"))


def pairs(value: str, default: str) -> Iterator[tuple[str, str]]:
    """The parts of ``0000:42:00,pcie=1``; one without a name is that of the default key."""
    for part in value.split(","):
        name, mark, said = part.partition("=")
        if mark:
            yield name.strip(), said.strip()
        elif part.strip():
            yield default, part.strip()
