"""Writes a recorded tree: beside its place first, then in one step; an interrupt leaves nothing."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from checks.snapshot import Snapshot
from provision.adopt import process
from provision.inspect.secrets import Secrets
from provision.inspect.tree_files import Entry, entries
from provision.run.errors import RunError


@dataclass(frozen=True)
class Recorded:
    """What was written: how many files, what was taken out by kind, what could not be recorded."""

    files: int
    removed: Mapping[str, int]
    lost: Sequence[str]


def free(target: Path) -> None:
    """Raises ValueError where the folder is there and holds something, or is no folder."""
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise ValueError(f"{target} is no folder: name one that is not there yet")
    if target.is_dir() and any(target.iterdir()):
        raise ValueError(
            f"{target} is not empty: a record is written into a new folder, so that none is mixed"
        )
    if not target.absolute().parent.is_dir():
        raise ValueError(f"{target.absolute().parent} is not there: make it first")


def write(target: Path, host: Snapshot, guests: Mapping[str, Snapshot]) -> Recorded:
    """The tree of a machine, and those of its guests in ``.kpro/guests/<name>``. Raises RunError when it cannot be
    written; then there is nothing of it."""
    secrets = Secrets()

    def clean(path: str, data: bytes) -> bytes:
        return secrets.cleaned(path, process.without_secrets(data) if path == process.NAME else data)

    parent = target.absolute().parent
    try:
        place = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=parent)).resolve()
    except OSError as error:
        raise RunError(f"{parent} cannot be written to: {error.strerror or error}") from error
    try:
        files, lost = 0, []
        for folder, snapshot in (
            (place, host),
            *((place / ".kpro" / "guests" / name, one) for name, one in guests.items()),
        ):
            found, gone = entries(snapshot, clean)
            lost += gone
            for entry in found:
                files += _put(folder, entry, lost)
        removed = secrets.removed
        text = "".join(f"{number} {kind}\n" for kind, number in removed.items())
        (place / ".kpro" / "removed").write_text(text)
        _move(place, target)
    except OSError as error:
        raise RunError(f"{target} cannot be written: {error.strerror or error}") from error
    finally:
        if place.exists():
            shutil.rmtree(place, ignore_errors=True)
    return Recorded(files, removed, lost)


def _move(place: Path, target: Path) -> None:
    """In one step; into an empty mount point, which nothing can take the place of, part by part. Raises OSError."""
    if not target.is_mount():
        place.rename(target)
        return
    try:
        for part in sorted(place.iterdir()):
            shutil.move(part, target / part.name)
    except BaseException:
        for part in target.iterdir():
            shutil.rmtree(
                part, ignore_errors=True
            ) if part.is_dir() and not part.is_symlink() else part.unlink()
        raise


def _put(root: Path, entry: Entry, lost: list[str]) -> int:
    path = Path(os.fsdecode(os.fsencode(root) + os.fsencode(entry.path)))
    try:
        if not path.parent.resolve().is_relative_to(root):
            raise ValueError("a link of the machine leads out of the tree")
        path.parent.mkdir(parents=True, exist_ok=True)
        if entry.kind == "folder":
            path.mkdir(exist_ok=True)
        elif entry.kind == "link":
            if not os.path.lexists(path):
                path.symlink_to(os.fsdecode(entry.data))
        elif entry.kind == "touch":
            with contextlib.suppress(FileExistsError, IsADirectoryError):
                path.open("xb").close()
        else:
            path.write_bytes(entry.data)
    except (FileExistsError, NotADirectoryError, IsADirectoryError, ValueError) as error:
        # A file where another entry needs a folder: the machine changed between two looks.
        lost.append(f"{entry.path}: {error}")
        return 0
    return 1
