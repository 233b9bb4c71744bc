"""An offline wheelhouse on the controller: which wheel is the engine, whom it fits, and what its files hold."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from provision.stack.engine.patches import DesiredPatch, Rejected, apply, read_all
from provision.stack.engine.patches import paths as changed_paths

_MANYLINUX = re.compile(r"manylinux_(\d+)_(\d+)_")
_OLD = {"manylinux1_": (2, 5), "manylinux2010_": (2, 12), "manylinux2014_": (2, 17)}
"""glibc of the first names (PEP 513, 571, 599); PEP 600 writes it into the tag."""


def engine_wheels(folder: Path, distribution: str, version: str) -> list[tuple[Path, frozenset[Tag]]]:
    """The wheels of this distribution and version, the highest build first. Unreadable names are no wheel."""
    return _of(folder.glob("*.whl"), distribution, version)


def _of(paths: Iterable[Path], distribution: str, version: str) -> list[tuple[Path, frozenset[Tag]]]:
    found = []
    for path in paths:
        try:
            name, found_version, build, tags = parse_wheel_filename(path.name)
            wanted = Version(version)
        except (InvalidWheelFilename, InvalidVersion):
            continue
        if name == canonicalize_name(distribution) and wanted in (
            found_version,
            Version(found_version.public),
        ):
            found.append((build, path, tags))
    return [(path, tags) for _, path, tags in sorted(found, key=lambda row: row[:2], reverse=True)]


def misfits(tags: frozenset[Tag], python: str, glibc: tuple[int, int] | None) -> Iterator[str]:
    """Why none of a wheel's tags fits: this CPython (``3.11``) on Linux, with this glibc (None: it is not known)."""
    minor = int(python.partition(".")[2])
    fitting = [tag for tag in tags if _python_fits(tag, minor)]
    if not fitting:
        yield f"is for {_listed(f'{t.interpreter}-{t.abi}' for t in tags)}, not for Python {python}"
    floors = [floor for tag in fitting or tags if (floor := glibc_of(tag)) is not None]
    if not floors:
        yield f"is for {_listed(tag.platform for tag in tags)}, not for Linux with glibc"
    elif glibc is not None and min(floors) > glibc:
        need, has = (".".join(map(str, numbers)) for numbers in (min(floors), glibc))
        yield f"needs glibc {need}, and the guest has {has}"


def _python_fits(tag: Tag, minor: int) -> bool:
    if tag.interpreter in ("py3", "py2.py3"):
        return True
    match = re.fullmatch(r"(cp|py)3(\d*)", tag.interpreter)
    if match is None:
        return False
    own = int(match[2] or 0)
    return own <= minor if tag.abi in ("abi3", "none") else own == minor


def glibc_of(tag: Tag) -> tuple[int, int] | None:
    """The lowest glibc of a platform tag; (0, 0) where it does not matter, None where it is no Linux with glibc."""
    if tag.platform == "any" or tag.platform.startswith("linux_"):
        return 0, 0
    if match := _MANYLINUX.match(tag.platform):
        return int(match[1]), int(match[2])
    return next((floor for name, floor in _OLD.items() if tag.platform.startswith(name)), None)


def fitting_floor(names: Sequence[str], requirement: str, python: str) -> tuple[int, int] | None:
    """The glibc that the wheel of a requirement needs, the easiest of those that fit this Python; None: no wheel."""
    distribution, _, version = requirement.partition("==")
    minor = int(python.partition(".")[2])
    floors = [
        floor
        for _, tags in _of(map(Path, names), distribution, version)
        for tag in tags
        if _python_fits(tag, minor) and (floor := glibc_of(tag)) is not None
    ]
    return min(floors, default=None)


def _listed(words: Iterator[str]) -> str:
    return ", ".join(sorted(set(words)))


def try_patches(wheel: Path, patches: Sequence[DesiredPatch]) -> None:
    """Applies them to the wheel's own files, in memory. Raises Rejected, and OSError when it cannot be read."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            names = set(archive.namelist())
            files = read_all(
                changed_paths(patches), lambda path: archive.read(path) if path in names else None
            )
    except zipfile.BadZipFile as error:
        raise Rejected([f"{wheel.name} is no whole wheel: {error}"]) from None
    apply(patches, files, wheel.name)
