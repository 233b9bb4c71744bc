"""A snapshot with the difference between a live machine and a recorded tree: what a tree lacks is unknown. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from checks.snapshot import CouldNotLook, Snapshot

ABSENT = "/.kpro/absent"
"""In a recorded tree: the paths that were looked at on the machine and were not there, one a line."""

T = TypeVar("T")


@dataclass
class Look:
    """``recorded``: the snapshot is of a recorded tree. ``unknown`` gathers what could not be told, with the reason."""

    snapshot: Snapshot
    recorded: bool = False
    unknown: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._absent: frozenset[str] = frozenset()
        if self.recorded and ("file", ABSENT) in self.snapshot.sections:
            try:
                self._absent = frozenset((self.snapshot.text(ABSENT) or "").splitlines())
            except CouldNotLook:
                self._absent = frozenset()

    def is_absent(self, path: str) -> bool:
        """Is it positively known that this path is not there? On a live machine whoever looked knows."""
        if not self.recorded:
            return True
        parts = path.rstrip("/").split("/")
        return any("/".join(parts[:end]) in self._absent for end in range(2, len(parts) + 1))

    def text(self, path: str) -> str | None:
        """A file; None when it is positively absent. Raises CouldNotLook otherwise."""
        found = self.snapshot.text(path)
        if found is None and not self.is_absent(path):
            raise CouldNotLook(f"the recorded tree has no {path}")
        return found

    def needed(self, path: str) -> str:
        """A file that every machine has. Raises CouldNotLook when it is not there."""
        found = self.text(path)
        if found is None:
            raise CouldNotLook(f"{path} is not there")
        return found

    def folder(self, path: str) -> list[str]:
        """The names in a folder; none when it is positively absent. Raises CouldNotLook otherwise."""
        data = self.snapshot.data("dir", path)
        if data is None:
            if not self.is_absent(path):
                raise CouldNotLook(f"the recorded tree has no {path}")
            return []
        return [name for name in data.decode(errors="surrogateescape").splitlines() if name]

    def attempt(self, what: str, ask: Callable[[], T]) -> T | None:
        """The answer; None where it cannot be had, and then the reason is kept under ``what``."""
        try:
            return ask()
        except CouldNotLook as error:
            self.unknown.setdefault(what, str(error))
        except (ValueError, KeyError, IndexError) as error:
            self.unknown.setdefault(what, f"it cannot be read: {str(error)[:160]}")
        return None
