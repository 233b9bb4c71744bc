"""What a cut-over takes away and for about how long, from figures of this very service. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from provision.stack.cutover import Mode
from provision.stack.held import Held

MEASURE_SECONDS = 120
"""``provcheck serve`` measures no longer than that, unless it is told otherwise."""


@dataclass(frozen=True)
class Figures:
    """Seconds from start to first tokens, with where that figure comes from, and of the measuring; None: not known."""

    start: float | None = None
    source: str = ""
    measured: float | None = None


def figures(digest: str, held: Held) -> Figures:
    """Of the profile itself where it was started before, else of what was last started for this service."""
    itself = [one for one in held.verdicts if one.digest == digest and one.start_s is not None]
    serves = [one for one in held.verdicts if one.digest == held.good and one.start_s is not None]
    measured = next((one.measured_s for one in (*itself, *serves) if one.measured_s is not None), None)
    if itself:
        return Figures(itself[0].start_s, "from the start it needed last time", measured)
    if serves:
        return Figures(serves[0].start_s, "from the start that what serves now needed", measured)
    return Figures(measured=measured)


@dataclass(frozen=True)
class Forecast:
    """``text``: one sentence; ``seconds`` without the service, None where that is not known."""

    text: str
    seconds: float | None


def forecast(name: str, mode: Mode, tried_apart: bool, known: Figures) -> Forecast:
    """``tried_apart``: the trial is a unit of its own, so that the profile is started twice."""
    if mode == "first":
        return Forecast(f"{name} does not serve now, so nothing goes down", 0.0)
    starts = 2 if mode == "swap" and tried_apart else 1
    measuring = mode == "swap"
    what = f"{starts} start{'s' if starts > 1 else ''}" + (" and the measuring" if measuring else "")
    before = f"{name} keeps serving while it is tried, and then " if mode == "beside" else f"{name} "
    if known.start is None:
        text = f"{before}is down for {what}; for how long is not known: no start of it was measured here yet"
        return Forecast(text, None)
    lasts = starts * known.start
    parts = [f"{starts} x {_seconds(known.start)}" if starts > 1 else _seconds(known.start)]
    if measuring:
        lasts += known.measured if known.measured is not None else MEASURE_SECONDS
        parts.append(
            f"{_seconds(known.measured)} of measuring"
            if known.measured is not None
            else f"at most {MEASURE_SECONDS} s of measuring"
        )
    text = f"{before}is down for about {lasts:.0f} s: {what} ({', '.join(parts)}), {known.source}"
    return Forecast(text, round(lasts, 1))


def _seconds(value: float) -> str:
    return f"{value:.0f} s"
