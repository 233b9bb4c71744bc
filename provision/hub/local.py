"""Model files that lie on the machine already, in a folder of its own: listed, and copied beside their new place.

Links are followed: a snapshot in the hub's cache is nothing but links to its blobs.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

from provision.hub import problems
from provision.hub.hashing import hashed
from provision.hub.order import Order
from provision.hub.select import OWN, HubFile, Listing

_FICLONE = 0x40049409
"""ioctl_ficlone(2): the copy shares its blocks with the original, where the file system can do that."""
_LEFT_OUT = (".git", ".cache", *OWN)


def listing(order: Order) -> Listing:
    """What lies in ``order.path``, with the hashes that the copies must have. Raises Problem, or OSError."""
    root = Path(order.path or "")
    if not root.is_dir():
        raise problems.no_folder(str(root))
    files = []
    for where, folders, names in os.walk(root, followlinks=False):
        folders[:] = sorted(name for name in folders if name not in _LEFT_OUT)
        for name in sorted(names):
            path = Path(where) / name
            relative = path.relative_to(root).as_posix()
            if relative not in _LEFT_OUT and stat.S_ISREG(path.stat().st_mode):
                files.append(HubFile(relative, path.stat().st_size, hashed(path).sha256, None))
    card = root / "README.md"
    text = card.read_text(errors="replace") if card.is_file() else None
    return Listing(order.repo, order.revision, tuple(files), text)


def copy(
    order: Order, file: HubFile, partial: Path, count: Callable[[int], None], say: Callable[[str], None]
) -> None:
    """Leaves the whole, verified copy at ``partial``, synced. Raises Problem, or OSError of the disk."""
    source = Path(order.path or "") / file.path
    with source.open("rb") as original, partial.open("wb") as stream:
        try:
            fcntl.ioctl(stream.fileno(), _FICLONE, original.fileno())
        except OSError:
            shutil.copyfileobj(original, stream, 1 << 20)
        stream.flush()
        os.fsync(stream.fileno())
    count(file.size)
    if not hashed(partial).agrees(file):
        partial.unlink()
        raise problems.changed(str(source))
