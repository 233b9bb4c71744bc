"""What a cut-over is asked to do: which profile is to serve, how it is tried, and what it is held against. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from provision.stack import trials
from provision.stack.desired import DesiredService
from provision.stack.trials import Trial


@dataclass(frozen=True)
class TakenBack:
    """The profile that is taken out of service by the way back: ``verdict`` on it, written into ``path`` by the guest
    itself once what served before generates; ``keep``: where an accepted one of another profile goes that was there."""

    verdict: Trial
    path: str
    keep: str


Mode = Literal["first", "again", "beside", "swap"]
"""``first``: nobody serves. ``again``: the very same profile is started and looked at again. ``beside``: it is tried
on loopback while the old one serves. ``swap``: the old one is drained and stopped before it is tried."""


@dataclass(frozen=True)
class Cutover:
    """One cut-over of one service.

    ``desired`` is to serve at the service's address. ``trial``: the same profile as a unit of its own on loopback;
    None: it is started in place. ``gate``: words of ``provcheck serve`` behind the URL; none: generating is enough.
    ``beats``: the least ratio to the baseline's tokens/s that counts; None: the gate's own thresholds alone.
    ``keep_baseline``: path in the guest that a green measurement is saved to. ``drain_seconds``: the longest wait for
    requests in flight before what serves is stopped. ``forecast``: what is down, and for about how long.
    ``candidate``: it is one that the inventory tries, so its verdict is remembered, and a refusal is no failure of the
    service. ``asked``: what it is held to, in words that are kept with the verdict: other words, another trial.
    ``of``: the profile is this candidate (``candidate.identity``), on trial or in service already; its verdict is then
    kept as a candidate's. ``beside``: what the service says beside the profile (``sameness.beside``), kept with the
    verdict. ``back``: it goes back to what served before; ``taken_back``: what must not come again by itself.
    """

    desired: DesiredService
    trial: DesiredService | None
    mode: Mode
    gate: tuple[str, ...] = ()
    beats: float | None = None
    keep_baseline: str | None = None
    drain_seconds: int = 30
    forecast: str = ""
    candidate: bool = False
    asked: str = ""
    of: str = ""
    beside: str = ""
    back: bool = False
    taken_back: TakenBack | None = None

    @property
    def baseline(self) -> str | None:
        """Path in the guest of what it is held against."""
        return after(self.gate, "--baseline")

    @property
    def record(self) -> str:
        """Where its verdict is kept."""
        name = self.desired.name
        if self.back:
            return trials.back_path(name)
        return trials.path(name) if self.of or self.candidate else trials.service_path(name)

    @property
    def keep(self) -> str:
        """Where an accepted verdict goes that is there already."""
        name = self.desired.name
        return trials.accepted_path(name) if self.of or self.candidate else trials.service_accepted_path(name)

    @property
    def digest(self) -> str:
        return self.desired.digest


def after(words: tuple[str, ...], option: str) -> str | None:
    """The value of an option, whichever way it is written."""
    for index, word in enumerate(words):
        if word == option and index + 1 < len(words):
            return words[index + 1]
        if word.startswith(f"{option}="):
            return word.partition("=")[2]
    return None


@dataclass(frozen=True)
class Measure:
    """A service is measured as it runs: ``words`` of ``provcheck serve``, ``path`` of the baseline that is kept,
    ``digest`` of the profile that runs."""

    desired: DesiredService
    words: tuple[str, ...]
    path: str
    digest: str
