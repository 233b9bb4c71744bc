"""What a folder holds: size and SHA-256 of every file, by streaming, and one digest over all of it."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TypedDict

CHUNK = 1024 * 1024


class Entry(TypedDict):
    """``size`` in bytes, ``sha256`` in hexadecimal digits."""

    size: int
    sha256: str


class ManifestError(ValueError):
    """The folder cannot be vouched for; ``reasons`` holds every reason."""

    def __init__(self, folder: Path, reasons: list[str]) -> None:
        super().__init__(f"{folder} cannot be vouched for: " + "; ".join(reasons))
        self.reasons = reasons


def manifest(folder: Path, exclude: Collection[str] = ()) -> dict[str, Entry]:
    """Every file under ``folder`` by its relative path with ``/``, in order of the path.

    ``exclude``: relative paths that are left out (a manifest kept inside the folder). A link to a file inside
    the folder counts as the file it shows; one that leads out is refused, for what it shows would not travel
    along. Raises ``ManifestError`` with all reasons, also for what is neither file nor folder and for a file
    that changes while it is read.
    """
    if not folder.is_dir():
        raise ManifestError(folder, ["there is no such folder"])
    root = folder.resolve()
    reasons: list[str] = []
    found: dict[str, Entry] = {}
    for path in _walk(root, reasons):
        relative = path.relative_to(root).as_posix()
        if relative in exclude:
            continue
        try:
            relative.encode()
            found[relative] = _entry(root, path)
        except UnicodeEncodeError:
            reasons.append(f"{relative!r}: the name is not UTF-8")
        except (OSError, RuntimeError) as error:
            # Python 3.11 and 3.12 report a loop of links as a RuntimeError.
            reasons.append(f"{relative}: cannot be read ({getattr(error, 'strerror', None) or error})")
        except ValueError as error:
            reasons.append(f"{relative}: {error}")
    if reasons:
        raise ManifestError(folder, sorted(reasons))
    return dict(sorted(found.items()))


def digest(entries: Mapping[str, Entry]) -> str:
    """40 hexadecimal digits over paths, sizes and hashes: equal files, equal digests."""
    rows = [[path, entry["size"], entry["sha256"]] for path, entry in sorted(entries.items())]
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:40]


def _walk(root: Path, reasons: list[str]) -> Iterator[Path]:
    def unreadable(error: OSError) -> None:
        reasons.append(f"{error.filename}: cannot be listed ({error.strerror})")

    for where, folders, files in os.walk(root, onerror=unreadable):
        for name in folders:
            if (Path(where) / name).is_symlink():
                reasons.append(
                    f"{(Path(where) / name).relative_to(root)}: a link to a folder; copy the folder itself"
                )
        for name in files:
            yield Path(where) / name


def _entry(root: Path, path: Path) -> Entry:
    target = path.resolve(strict=True)
    if not target.is_relative_to(root):
        raise ValueError(
            f"a link that leads out of the folder, to {target}; copy with the links followed (cp -L)"
        )
    if not stat.S_ISREG(target.stat().st_mode):
        raise ValueError("neither a file nor a folder")
    hasher = hashlib.sha256()
    with os.fdopen(os.open(target, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as stream:
        before = os.fstat(stream.fileno())
        size = 0
        # Not beyond the size it had: a file that is written to as fast as it is read would never end.
        while size <= before.st_size and (block := stream.read(CHUNK)):
            hasher.update(block)
            size += len(block)
        after = os.fstat(stream.fileno())
    if size != before.st_size or _version(before) != _version(after):
        raise ValueError("changed while it was read; wait for the copy to end")
    return {"size": size, "sha256": hasher.hexdigest()}


def _version(status: os.stat_result) -> tuple[int, int]:
    return status.st_size, status.st_mtime_ns
