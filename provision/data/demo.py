"""Where the demonstration keeps its files on the controller, and what its throw-away container is called."""

from __future__ import annotations

import os
from pathlib import Path

from provision.testhost.demo_files import DEMO_REVISION

CONTAINER = "kpro-demo"
"""The LXC container of the demonstration. Its name says whose it is: nothing else is ever removed."""

PORT = 18480
"""A port that no engine uses by default, so that a demonstration never meets a real service."""

MODEL_REVISION = DEMO_REVISION
"""The tiny model is made on the spot: its content's digest stands for the commit that it does not have."""


def folder(name: str) -> Path:
    """``$KPRO_DEMO_DIR/<name>``, else ``$XDG_CACHE_HOME/kpro/demo/<name>`` (``~/.cache`` by default)."""
    given = os.environ.get("KPRO_DEMO_DIR")
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return (Path(given) if given else Path(cache) / "kpro" / "demo") / name
