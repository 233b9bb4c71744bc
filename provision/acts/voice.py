"""What an act is given of its run: the run's id, and a way to tell how it gets on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Voice:
    """Call it with a line of progress."""

    run: str
    say: Callable[[str], None]

    def __call__(self, text: str) -> None:
        self.say(text)
