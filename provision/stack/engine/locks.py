"""The lock of an environment: every package with its version and hashes, and nothing about where it comes from.

A lock is written by the first build, lies beside the environment, and is kept on the controller, where the next build
of the same environment finds it: on another machine, or on the way back.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from provision.run.journal import runs_folder

NAME = "kpro-lock.txt"
"""Beside the environment."""
OF_WHEELHOUSE = "engine.lock"
"""A wheelhouse's own: what is installed of it, to the last package, and nothing besides."""
_ROW = re.compile(r"([A-Za-z0-9][\w.-]*)==(\S+?)(?:\s*;[^#]*?)?((?:\s+--hash=sha256:[0-9a-f]{64})*)")


def rows(text: str) -> Iterator[tuple[str, str, bool]]:
    """Name, version, and whether it has a hash. Raises ValueError with the line that is none."""
    joined = re.sub(r"\\\n", " ", text)
    for line in joined.splitlines():
        row = line.partition(" #")[0].strip()
        if not row or row.startswith("#"):
            continue
        match = _ROW.fullmatch(row)
        if match is None:
            raise ValueError(f"{row[:80]!r} is no NAME==VERSION with its --hash=sha256:")
        yield canonicalize_name(match[1]), match[2], bool(match[3])


def wrong(text: str, requirement: str | None) -> Iterator[str]:
    """Every reason why a text is no lock of an environment; ``requirement``: what it must pin, ``vllm==0.20.1``."""
    try:
        found = list(rows(text))
    except ValueError as error:
        yield str(error)
        return
    bare = sorted(name for name, _, hashed in found if not hashed)
    if bare:
        yield f"{', '.join(bare[:3])}{' and others' if len(bare) > 3 else ''} without --hash=sha256:"
    if requirement is not None:
        name, _, version = requirement.partition("==")
        pinned = [row[1] for row in found if row[0] == canonicalize_name(name)]
        if not any(_same(one, version) for one in pinned):
            yield f"does not pin {requirement}" + (f", but {pinned[0]}" if pinned else "")


def _same(found: str, wanted: str) -> bool:
    try:
        return Version(found) == Version(wanted) or Version(found).public == wanted
    except InvalidVersion:
        return found == wanted


def with_hashes(text: str, wheels: Iterable[tuple[str, str]]) -> str:
    """A lock that names versions alone, with the hashes of the wheels (name, sha256) that it means. What no wheel is
    there for stays as it is."""
    hashes: dict[tuple[str, Version], list[str]] = {}
    for name, sha256 in wheels:
        try:
            project, version, _, _ = parse_wheel_filename(name)
        except InvalidWheelFilename:
            continue
        hashes.setdefault((project, version), []).append(sha256)
    return "".join(f"{line}\n" for line in _hashed(text, hashes))


def _hashed(text: str, hashes: Mapping[tuple[str, Version], list[str]]) -> Iterator[str]:
    for name, version, _ in rows(text):
        key = canonicalize_name(name), Version(version)
        found = [*hashes.get(key, ())]
        if not found:
            # ``torch==2.13.0`` means a build of it too.
            found = [s for (n, v), own in hashes.items() if n == key[0] and v.public == version for s in own]
        yield " ".join([f"{name}=={version}", *(f"--hash=sha256:{sha256}" for sha256 in found)])


def folder() -> Path:
    return runs_folder().parent / "locks"


def kept(environment: str) -> str | None:
    """What a build of this environment before has left on the controller."""
    path = folder() / f"{environment}.txt"
    return path.read_text("utf-8") if path.is_file() else None


def keep(environment: str, text: str) -> Path:
    """Puts a lock where the next build finds it, in one step. Raises OSError."""
    path = folder() / f"{environment}.txt"
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    made = path.with_suffix(f".{os.getpid()}")
    with made.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    made.replace(path)
    return path
