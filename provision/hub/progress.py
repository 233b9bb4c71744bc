"""How a fetch gets on, in lines: file, bytes, rate, time left. Pure but for the clock that it is given."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from provision.hub.select import amount

EVERY_SECONDS = 5.0
WINDOW_SECONDS = 30.0
"""The rate is that of the last half minute."""


class Progress:
    """Counts bytes; ``say`` gets a line at most every ``EVERY_SECONDS``."""

    def __init__(
        self, name: str, total: int, done: int, clock: Callable[[], float], say: Callable[[str], None]
    ) -> None:
        self._name, self._total, self._done = name, total, done
        self._clock, self._say = clock, say
        self._marks: deque[tuple[float, int]] = deque([(clock(), done)])
        self._said = clock()
        self._file = ""

    def file(self, path: str, number: int, of: int) -> None:
        self._file = f"{path} ({number} of {of})"

    def count(self, size: int) -> None:
        """``size`` more bytes; negative where bytes are fetched anew."""
        self._done += size
        now = self._clock()
        if now - self._said >= EVERY_SECONDS:
            self._said = now
            self._marks.append((now, self._done))
            while len(self._marks) > 2 and now - self._marks[0][0] > WINDOW_SECONDS:
                self._marks.popleft()
            self._say(self.line())

    def line(self) -> str:
        (first, before), (last, after) = self._marks[0], self._marks[-1]
        rate = (after - before) / (last - first) if last > first else 0.0
        share = 100 * self._done // self._total if self._total else 100
        text = f"{self._name}: {self._file}, {share} % of {amount(self._total)}"
        if rate <= 0:
            return text
        return f"{text}, {amount(rate)}/s, {_time(max(self._total - self._done, 0) / rate)} left"


def _time(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
