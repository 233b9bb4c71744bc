"""Things that are built once and kept under ``$XDG_CACHE_HOME/kpro/vm``: there whole, or not at all."""

from __future__ import annotations

import fcntl
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from checks.caches import cache_folder

from .errors import TestHostError

Say = Callable[[str], None]
"""Takes one line of progress."""

_PARTIAL = ".partial-"


def folder(environ: Mapping[str, str] = os.environ) -> Path:
    """The cache of the virtual host."""
    return cache_folder(environ) / "vm"


def make_folder(path: Path) -> Path:
    """Makes ``path``; what root makes in somebody's home becomes that somebody's."""
    missing = [place for place in (path, *path.parents) if not place.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for place in reversed(missing):
        give(place)
    return path


def give(path: Path) -> None:
    """Gives ``path`` to the owner of its folder, when root made it."""
    if os.geteuid() == 0:
        owner = path.parent.stat()
        os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)


def kept(where: Path, name: str, build: Callable[[Path], None], say: Say, what: str) -> Path:
    """``where/name``, made by ``build(empty folder)`` when it is not there yet.

    Builders wait for each other. What a build leaves when it is cut has a name of its own, is never taken for
    whole, and is removed by the next build.
    """
    final = where / name
    if final.is_dir():
        return final
    make_folder(where)
    with _alone(where, say):
        if final.is_dir():
            return final
        for left in where.glob(f"{_PARTIAL}*"):
            remove(left)
        started = time.monotonic()
        say(f"building {what}")
        partial = Path(tempfile.mkdtemp(prefix=_PARTIAL, dir=where))
        try:
            partial.chmod(0o755)
            build(partial)
            subprocess.run(["sync", "-f", str(partial)], check=False)
            give(partial)
            partial.rename(final)
        except BaseException:
            remove(partial)
            raise
        say(f"built {what} ({time.monotonic() - started:.0f} s)")
    return final


def remove(path: Path) -> None:
    """Removes a build's folder, never across a mount: what is mounted in it is not the build's.

    Raises TestHostError when something is mounted there.
    """
    mounted = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    under = [place for place in mounted if place == str(path) or place.startswith(f"{path}/")]
    if under:
        raise TestHostError(f"{path} cannot be removed: {', '.join(under)} is mounted; umount it")
    subprocess.run(["rm", "-rf", "--one-file-system", "--", str(path)], check=True)


@contextmanager
def _alone(where: Path, say: Say) -> Iterator[None]:
    with (where / ".build.lock").open("a") as lock:
        give(Path(lock.name))
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another build is under way: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
