"""Which folders of a Proxmox VE machine are on a storage that other nodes of its cluster have too. Pure.

``/etc/pve/storage.cfg`` (PVE::Storage::Plugin, PVE::SectionConfig): a section begins with ``type: id`` in column 0,
its properties are indented, ``key value``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

FILE = "/etc/pve/storage.cfg"
SHARED_TYPES = ("nfs", "cifs", "cephfs", "glusterfs")
"""Shared by their kind; mounted at /mnt/pve/ID unless ``path`` says otherwise."""


@dataclass(frozen=True)
class Storage:
    """One section. ``path`` is where its files are, None for one without a folder; ``content`` is what it may hold
    (``rootdir``, ``vztmpl``, …), None where its kind says that."""

    type: str
    id: str
    path: str | None
    shared: bool
    content: frozenset[str] | None = None


def storages(text: str) -> tuple[Storage, ...]:
    found: list[Storage] = []
    head: tuple[str, str] | None = None
    keys: dict[str, str] = {}

    def close() -> None:
        if head is not None:
            default = f"/mnt/pve/{head[1]}" if head[0] in SHARED_TYPES else None
            path = keys.get("path", default)
            shared = head[0] in SHARED_TYPES or keys.get("shared") == "1"
            listed = keys.get("content")
            content = None if listed is None else frozenset(re.split(r"[,;\s]+", listed))
            found.append(Storage(*head, path, shared, content))

    for line in text.splitlines():
        if section := re.match(r"([a-z][a-z0-9]*):\s*([A-Za-z][A-Za-z0-9._-]*)\s*$", line):
            close()
            head, keys = (section[1], section[2]), {}
        elif pair := re.match(r"\s+(\S+)\s+(.*\S)\s*$", line):
            keys[pair[1]] = pair[2]
    close()
    return tuple(found)


def on_shared(text: str | None, path: str) -> bool:
    """Is this folder on a storage that several nodes have?"""
    return any(
        storage.shared and storage.path is not None and _below(path, storage.path)
        for storage in storages(text or "")
    )


def _below(path: str, folder: str) -> bool:
    folder = folder.rstrip("/")
    return path == folder or path.startswith(f"{folder}/")
