"""Whose turn it is on a GPU: two tests at once would each find it idle, and measure each other.

A lock on the kernel's own folder of the GPU (/proc/driver/nvidia/gpus/BDF): nothing is written, it ends with the
process however that ends. A container with a /proc of its own has other locks; there NVML shows the other test.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable
from pathlib import Path

from checks.bdf import Bdf

FOLDER = Path("/proc/driver/nvidia/gpus")
TAKEN = "another test of provcheck is on it"


class Turn:
    """Holds the locks of GPUs until ``close`` or its own end. ``taken`` are the addresses that another test holds."""

    def __init__(self, addresses: Iterable[object], folder: Path = FOLDER) -> None:
        self.taken: set[str] = set()
        self._held: list[int] = []
        for address in addresses:
            self._take(str(address), folder)

    def _take(self, address: str, folder: Path) -> None:
        try:
            place = folder / str(Bdf.parse(address.removeprefix("b:")))
            handle = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except (OSError, ValueError):
            return  # another kind of driver, or no address: nothing to lock
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._held.append(handle)
        except BlockingIOError:
            self.taken.add(address)
            os.close(handle)
        except OSError:
            os.close(handle)  # a file system that knows no locks

    def close(self) -> None:
        while self._held:
            os.close(self._held.pop())

    def __del__(self) -> None:
        self.close()
