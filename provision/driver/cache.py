"""What the controller keeps: prebuilt drivers under ``$XDG_CACHE_HOME/kpro/prebuilt/``."""

from __future__ import annotations

from pathlib import Path

from checks.caches import cache_folder
from provision.driver.archive import Prebuilt


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
