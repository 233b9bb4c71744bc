"""What the controller keeps: prebuilt drivers under ``$XDG_CACHE_HOME/kpro/prebuilt/``, NVIDIA's installers under
``$XDG_CACHE_HOME/kpro/installers/``."""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path

from checks.caches import cache_folder
from provision.data.run_installer import file_name
from provision.driver.archive import Prebuilt
from provision.driver.installer import Installer


def folder() -> Path:
    return cache_folder() / "prebuilt"


def held() -> tuple[Prebuilt, ...]:
    """The archives that are there, by their names. What is in them is judged where they are installed."""
    try:
        names = [entry.name for entry in folder().iterdir() if entry.is_file()]
    except FileNotFoundError:
        return ()
    return tuple(sorted(found for found in map(Prebuilt.parse, names) if found))


def path_of(prebuilt: Prebuilt) -> Path:
    return folder() / prebuilt.name


def installer(version: str, path: str | None = None, expected: str | None = None) -> Installer:
    """The .run installer of a version: the file that the inventory names, else the cache's. Its sha256 is compared with
    the inventory's, else with that of the file ``.sha256sum`` beside it, as NVIDIA publishes it."""
    file = Path(path) if path else cache_folder() / "installers" / file_name(version)
    try:
        state = file.stat()
        digest = _digest(str(file), state.st_size, state.st_mtime_ns)
    except OSError:
        return Installer(version, str(file), None, expected)
    return Installer(version, str(file), digest, expected or _published(file))


@cache
def _digest(path: str, size: int, changed: int) -> str:
    """Once for each state of the file: it has hundreds of MiB."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _published(file: Path) -> str | None:
    """``sha256sum``'s line for this file; None where there is none."""
    try:
        lines = file.with_name(f"{file.name}.sha256sum").read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    for line in lines:
        found = re.fullmatch(r"([0-9a-f]{64}) [ *](.+)", line.strip())
        if found and Path(found[2]).name == file.name:
            return found[1]
    return None
