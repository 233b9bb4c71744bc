"""Where the controller keeps what it made once and can make again."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path


def writable_folder() -> Path:
    """The same, made where it is not there; one of this process alone, gone at its end, where nothing can be kept (no
    home, a file system that is read-only). Raises OSError where there is no place for that either."""
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return _of_this_process()
    return folder if os.access(folder, os.W_OK | os.X_OK) else _of_this_process()


@cache
def _of_this_process() -> Path:
    folder = tempfile.mkdtemp(prefix="kpro-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """``$XDG_CACHE_HOME/kpro``, ``~/.cache/kpro`` without it.

    A relative XDG_CACHE_HOME is to be ignored, says the base directory specification.
    """
    given = environ.get("XDG_CACHE_HOME", "")
    home = Path(given) if given.startswith("/") else Path(environ.get("HOME") or Path.home()) / ".cache"
    return home / "kpro"
