"""A crash of the interpreter itself says on stderr where it was: functions and lines, never values."""

from __future__ import annotations

import faulthandler
import os

STDERR = 2


def tell() -> None:
    """From here on, until the process ends. Where the caller closed stderr, or somebody tells already, nothing is
    done: the number could be that of another file by then."""
    try:
        os.fstat(STDERR)
    except OSError:
        return
    if not faulthandler.is_enabled():
        faulthandler.enable(STDERR)
