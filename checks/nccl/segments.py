"""NCCL's shared memory in /dev/shm: which files are of our own ranks, and what is left of them afterwards.

NCCL names its files at random and removes each once both sides have it. A killed rank leaves them. A file is
ours only if one of our own processes was seen to map or hold it: nobody else's is ever removed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

SHM = Path("/dev/shm")
_NAME = re.compile(r"/dev/shm/(nccl-[A-Za-z0-9._-]+)")


def there(folder: Path = SHM) -> set[str]:
    """The names of NCCL's files that are there now."""
    try:
        return {entry.name for entry in os.scandir(folder) if entry.name.startswith("nccl-")}
    except OSError:
        return set()


def held_by(pids: Iterable[int], proc: Path = Path("/proc")) -> set[str]:
    """The names of NCCL's files that these processes map or have open."""
    names: set[str] = set()
    for pid in pids:
        with suppress(OSError):
            names.update(_NAME.findall((proc / str(pid) / "maps").read_text(errors="replace")))
        with suppress(OSError):
            for entry in (proc / str(pid) / "fd").iterdir():
                with suppress(OSError):  # closed between the listing and the look
                    names.update(_NAME.findall(str(entry.readlink())))
    return names


def sweep(before: set[str], ours: set[str], folder: Path = SHM) -> list[str]:
    """Removes what is ours, was not there before, and is held by no process any more. Gives the names."""
    removed = []
    for name in sorted((there(folder) - before) & ours):
        if name in held_by(_living()):
            continue
        try:
            (folder / name).unlink()
        except OSError:
            continue
        removed.append(name)
    return removed


def _living() -> list[int]:
    return [int(entry.name) for entry in os.scandir("/proc") if entry.name.isdecimal()]
