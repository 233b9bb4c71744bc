"""Where the controller keeps what it made once and can make again."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """``$XDG_CACHE_HOME/kpro``, ``~/.cache/kpro`` without it.

    A relative XDG_CACHE_HOME is to be ignored, says the base directory specification.
    """
    given = environ.get("XDG_CACHE_HOME", "")
    home = Path(given) if given.startswith("/") else Path(environ.get("HOME") or Path.home()) / ".cache"
    return home / "kpro"
