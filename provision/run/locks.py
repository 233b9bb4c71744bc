"""The machines' locks that one run holds; the parts of a run share them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from pyinfra.api.host import Host

from provision.run import lock


class Locks:
    """By the machine's name."""

    def __init__(self) -> None:
        self._held: dict[str, lock.MachineLock] = {}

    def has(self, name: str) -> bool:
        """Was it taken, and not let go since? Its connection may have broken."""
        return name in self._held

    def alive(self, name: str) -> bool:
        return name in self._held and self._held[name].alive

    def take(self, name: str, host: Host, owner: lock.Owner, say: Callable[[str], None]) -> None:
        """Raises Locked and RunError."""
        self._held[name] = lock.take(host, owner, say)

    def forget(self, name: str) -> None:
        """There is no lock to give back: the machine is gone."""
        self._held.pop(name, None)

    def let_go(self, name: str) -> None:
        """Gives it back; a machine that cannot be reached frees it by itself."""
        held = self._held.pop(name, None)
        if held is not None:
            with suppress(OSError):
                held.release()

    def release_all(self, say: Callable[[str], None]) -> None:
        for held in self._held.values():
            try:
                held.release()
            except OSError as error:
                say(f"a lock was not given back properly: {error}")
        self._held.clear()
