"""What the controller keeps: prebuilt drivers under ``$XDG_CACHE_HOME/kpro/prebuilt/``."""

from __future__ import annotations

import os
from pathlib import Path

from provision.driver.archive import Prebuilt


def folder() -> Path:
    """A relative XDG_CACHE_HOME is to be ignored, says the base directory specification."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    home = Path(cache) if cache.startswith("/") else Path.home() / ".cache"
    return home / "kpro" / "prebuilt"


def held() -> tuple[Prebuilt, ...]:
    """The archives that are there, by their names. What is in them is judged where they are installed."""
    try:
        names = [entry.name for entry in folder().iterdir() if entry.is_file()]
    except FileNotFoundError:
        return ()
    return tuple(sorted(found for found in map(Prebuilt.parse, names) if found))


def path_of(prebuilt: Prebuilt) -> Path:
    return folder() / prebuilt.name
