"""One test host at a time on a machine: two would only wait for each other's processors."""

from __future__ import annotations

import fcntl
import json
import os
import time
from pathlib import Path
from typing import TextIO

from . import cache
from .cache import Say
from .errors import TestHostBusy

_LOOK = 1.0


class Lock:
    """A flock whose file says who holds it. QEMU inherits ``fd``: while it lives, the lock is held."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: TextIO | None = None

    @property
    def fd(self) -> int:
        assert self._file is not None
        return self._file.fileno()

    def take(self, owner: str, wait: float, say: Say) -> None:
        """Raises TestHostBusy, with the holder, when it is not free within ``wait`` seconds."""
        cache.make_folder(self._path.parent)
        file = self._path.open("a+")
        until = time.monotonic() + wait
        said = ""
        try:
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    holder = self.holder()
                    if time.monotonic() >= until:
                        raise TestHostBusy(
                            f"a test host runs on this machine already ({holder}), and there is one at a time: "
                            "wait until it has ended; if that run is yours and hangs, end it by its pid"
                        ) from None
                    if holder != said:
                        say(f"waiting for the test host of {holder}")
                        said = holder
                    time.sleep(min(_LOOK, max(0.0, until - time.monotonic())))
        except BaseException:
            file.close()
            raise
        cache.give(self._path)
        self._file = file
        self.note(owner, os.getpid())

    def note(self, owner: str, pid: int) -> None:
        """Writes down who holds it."""
        assert self._file is not None
        self._file.truncate(0)
        since = time.strftime("%H:%M:%S")
        self._file.write(json.dumps({"owner": owner, "pid": pid, "since": since}) + "\n")
        self._file.flush()

    def holder(self) -> str:
        """Who holds it, in words."""
        try:
            row = json.loads(self._path.read_text())
            return f"{row['owner']}, pid {row['pid']}, since {row['since']}"
        except (OSError, ValueError, KeyError, TypeError):
            return "holder unknown"

    def release(self) -> None:
        """Harmless when it is not held. A QEMU that was let go goes on holding it."""
        if self._file is not None:
            self._file.close()
            self._file = None
