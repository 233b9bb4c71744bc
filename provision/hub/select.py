"""Which files of a repository are fetched. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from provision.data.model_files import LARGEST, NOT_READY, REDUNDANT, is_weights
from provision.hub import problems

OWN = ("kpro-manifest.json", "kpro-source.json")
PARTIAL = ".kpro-partial"
ROLES = ("model", "drafter")


@dataclass(frozen=True)
class HubFile:
    """A file as the hub lists it: ``size`` in bytes, ``sha256`` of large files, git's ``blob`` of small ones."""

    path: str
    size: int
    sha256: str | None
    blob: str | None


@dataclass(frozen=True)
class Listing:
    """What a repository holds at a commit; ``card`` is the text of its README.md where it was asked for."""

    repo: str
    revision: str
    files: tuple[HubFile, ...]
    card: str | None = None


@dataclass(frozen=True)
class Selection:
    """What is fetched, what is not (with the reason), and what the operator should know."""

    files: tuple[HubFile, ...]
    left_out: tuple[tuple[HubFile, str], ...]
    notes: tuple[str, ...]

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


def select(listing: Listing, patterns: tuple[str, ...] | None, role: str) -> Selection:
    """``patterns`` (fnmatch) say what is wanted; without them everything but what is there twice.

    Raises Problem where the result could not be served: no weights, a model without config.json, a name that leads out
    of its folder, a file too large for plain HTTP.
    """
    if patterns:
        chosen = [file for file in listing.files if _any(file.path, patterns)]
        left = [(file, "not in files=(…)") for file in listing.files if file not in chosen]
    else:
        names = [file.path for file in listing.files]
        why = {file.path: reason for file in listing.files if (reason := _redundant(file.path, names))}
        chosen = [file for file in listing.files if file.path not in why]
        left = [(file, why[file.path]) for file in listing.files if file.path in why]
    for file in chosen:
        if not _harmless(file.path):
            raise problems.odd_name(listing.repo, file.path)
        if file.size > LARGEST:
            raise problems.too_large(listing.repo, file.path, file.size)
    paths = {file.path for file in chosen}
    weights = any(is_weights(path) for path in paths)
    gguf = any(path.endswith(".gguf") for path in paths)
    if not weights or (role == "model" and "config.json" not in paths and not gguf):
        raise problems.no_model(listing.repo, len(chosen), patterns, role)
    return Selection(tuple(chosen), tuple(left), tuple(_notes(listing, paths, role)))


def _notes(listing: Listing, paths: set[str], role: str) -> list[str]:
    notes = []
    if listing.card and (found := NOT_READY.search(listing.card)):
        notes.append(
            f"the card of {listing.repo} says {found.group()!r}: what it drafts may be rejected; the gate of step 9 "
            "judges it (provcheck drafter), and a later commit may be better"
        )
    if role == "drafter" and "config.json" not in paths:
        notes.append(
            f"{listing.repo} has weights and no config.json: its layers, mask token and block size are not told; "
            "provcheck drafter works out what can be (--write writes it) and refuses to guess the rest"
        )
    return notes


def _redundant(path: str, names: Sequence[str]) -> str | None:
    for row in REDUNDANT:
        if _any(path, row.patterns) and any(
            fnmatchcase(name, row.instead) and not _any(name, row.patterns) for name in names
        ):
            return row.why
    return None


def _any(path: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(path, pattern) for pattern in patterns)


def _harmless(path: str) -> bool:
    """Relative, below its folder, printable, and none of the files that kpro keeps there itself."""
    parts = path.split("/")
    return (
        not PurePosixPath(path).is_absolute()
        and not any(part in ("", ".", "..") for part in parts)
        and path.isprintable()
        and "\\" not in path
        and parts[0] not in (".incoming", *OWN)
        and not path.endswith(PARTIAL)
    )


def amount(size: float) -> str:
    """Bytes for people: ``53.8 GiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError
