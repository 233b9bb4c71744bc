"""Fetches a model where it is to lie: asks, sees that it fits, downloads, verifies, and only then puts it in place.

Files are gathered in ``.incoming`` beside their place; what arrived stays there when the fetch ends early, and the next
one goes on from the byte it got to. A folder that is there already is mended file by file.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from provision.hub import local, problems
from provision.hub.ask import ask
from provision.hub.download import download
from provision.hub.hashing import hashed
from provision.hub.order import Order
from provision.hub.progress import Progress
from provision.hub.select import OWN, PARTIAL, HubFile, Listing, Selection, amount, select

MANIFEST, SOURCE = OWN
Say = Callable[[str], None]


@dataclass(frozen=True)
class Place:
    """``target``: the folder that is wanted; ``staging``: where it is gathered."""

    target: Path
    staging: Path

    def partial(self, path: str) -> Path:
        return self.staging / f"{path}{PARTIAL}"


def fetch(order: Order, say: Say, host: str) -> None:
    """Carries out the order. ``host`` is this machine's name, for messages. Raises Problem, or OSError of the disk."""
    place = Place(Path(order.directory), Path(order.staging))
    known = _known(place.target)
    if known is None and place.target.exists():
        raise problems.foreign(order.directory)
    listing = local.listing(order) if order.path else _asked(order, host)
    chosen = select(listing, order.files, order.role)
    for note in chosen.notes:
        say(f"note: {note}")
    for folder in dict.fromkeys(
        [place.staging, *((place.staging / file.path).parent for file in chosen.files)]
    ):
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    with _alone(place.staging):
        _gather(order, place, chosen, say)
        _put(order, place, chosen, known)
    say(f"{order.repo}: {len(chosen.files)} files, {amount(chosen.size)}, verified, in {order.directory}")


def _asked(order: Order, host: str) -> Listing:
    return ask(
        order.repo,
        order.revision,
        endpoint=order.endpoint,
        token=order.token,
        who=host,
        card=order.role == "drafter",
    )


def _gather(order: Order, place: Place, chosen: Selection, say: Say) -> None:
    """Every file lies in staging or in place afterwards, and was verified there."""
    there = {file.path: _there(place, file) for file in chosen.files}
    missing = [file for file in chosen.files if there[file.path] is None]
    here = {file.path: _size(place.partial(file.path)) for file in missing}
    needed = sum(max(file.size - here[file.path], 0) for file in missing)
    _fits(order, place, needed, len(missing))
    whole, total = len(chosen.files), chosen.size
    say(
        f"{order.repo}: {whole} files, {amount(total)}; {amount(needed)} in {len(missing)} files are to come"
        + (f", {amount(sum(here.values()))} of them arrived before" if any(here.values()) else "")
        + (f"; left out: {_left_out(chosen)}" if chosen.left_out else "")
    )
    get = local.copy if order.path else download
    progress = Progress(order.repo, total, total - needed, time.monotonic, say)
    for number, file in enumerate(chosen.files, 1):
        progress.file(file.path, number, whole)
        if there[file.path] is None:
            get(order, file, place.partial(file.path), progress.count, say)
            target = place.staging / file.path
            place.partial(file.path).chmod(0o644)
            place.partial(file.path).replace(target)
            say(progress.line())


def _left_out(chosen: Selection) -> str:
    by_reason: dict[str, list[HubFile]] = {}
    for file, why in chosen.left_out:
        by_reason.setdefault(why, []).append(file)
    return ", ".join(
        f"{len(files)} files, {amount(sum(file.size for file in files))} ({why})"
        for why, files in by_reason.items()
    )


def _there(place: Place, file: HubFile) -> Path | None:
    """The verified file, in staging or in place."""
    for path in (place.staging / file.path, place.target / file.path):
        if _size(path) == file.size and not path.is_symlink() and hashed(path).agrees(file):
            return path
    return None


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _fits(order: Order, place: Place, needed: int, files: int) -> None:
    """Before the first byte: will it all fit, with the reserve left over?"""
    disk = os.statvfs(place.staging)
    free = disk.f_bavail * disk.f_frsize
    if needed and needed + order.reserve > free:
        raise problems.no_space(order.directory, needed + order.reserve, free)
    # A partial file has its inode already; some file systems (btrfs) do not count them and say 0 of 0.
    if disk.f_files and files + 10 > disk.f_favail:
        raise problems.no_space(order.directory, files + 10, disk.f_favail, "inodes")


def _put(order: Order, place: Place, chosen: Selection, known: object) -> None:
    entries = {}
    for file in chosen.files:
        path = place.staging / file.path
        path = path if path.exists() else place.target / file.path
        entries[file.path] = {"size": file.size, "sha256": file.sha256 or hashed(path).sha256}
    source: dict[str, Any] = {
        "repo": order.repo,
        "revision": order.revision,
        "files": order.files and list(order.files),
    }
    if order.path:
        source["path"] = order.path
    if known is None:
        _clean(place.staging, {file.path for file in chosen.files})
        _write(place.staging / MANIFEST, json.dumps(entries, indent=1, sort_keys=True) + "\n")
        _write(place.staging / SOURCE, json.dumps(source, indent=1, sort_keys=True) + "\n")
        _sync(place.staging)
        place.staging.rename(place.target)
        _sync_folder(place.target.parent)
        with contextlib.suppress(OSError):
            place.staging.parent.rmdir()
        return
    # File by file, each in one step: a server that has them open keeps what it has.
    for file in chosen.files:
        path = place.staging / file.path
        if path.exists():
            target = place.target / file.path
            target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            path.replace(target)
            _sync_folder(target.parent)
    _write(place.target / SOURCE, json.dumps(source, indent=1, sort_keys=True) + "\n")
    _write(place.target / MANIFEST, json.dumps(entries, indent=1, sort_keys=True) + "\n")
    shutil.rmtree(place.staging)
    with contextlib.suppress(OSError):
        place.staging.parent.rmdir()


def _known(target: Path) -> object:
    """The manifest of a folder that is ours; None where there is none."""
    try:
        return json.loads((target / MANIFEST).read_text())
    except (OSError, ValueError):
        return None


def _clean(staging: Path, wanted: set[str]) -> None:
    """Removes what an earlier try with other patterns left."""
    for where, folders, files in os.walk(staging, topdown=False):
        for name in files:
            path = Path(where) / name
            if path.relative_to(staging).as_posix() not in wanted:
                path.unlink()
        for name in folders:
            with contextlib.suppress(OSError):
                (Path(where) / name).rmdir()


def _write(path: Path, text: str) -> None:
    partial = path.with_name(path.name + PARTIAL)
    with partial.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    partial.chmod(0o644)
    partial.replace(path)
    _sync_folder(path.parent)


def _sync(folder: Path) -> None:
    """Names of all files; their contents were synced one by one."""
    for where, _, _ in os.walk(folder):
        _sync_folder(Path(where))


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One fetch for each place; the lock is the folder itself, and no file of its own stays behind."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise
            raise problems.busy(str(folder)) from None
        yield
    finally:
        os.close(handle)
