"""Seconds and rates of timed all-reduces, at one size and at many. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from checks.nccl.measured import Run


def bus_rate(size: int, seconds: float, nranks: int) -> float:
    """GB/s on the busiest link in an all-reduce: nccl-tests' busbw (doc/PERFORMANCE.md)."""
    return size / seconds / 1e9 * 2 * (nranks - 1) / nranks


def best(run: Run) -> tuple[int | None, float | None]:
    """Bytes and seconds of the best round at the greatest size; a round takes as long as its slowest rank."""
    seconds = _best([rank.first("medians_s") for rank in run.ranks])
    return (None, None) if seconds is None else (run.ranks[0].first("bench"), seconds)


def curve(run: Run) -> dict[int, float]:
    """Bytes -> seconds of the best round, ascending, the greatest size with them; empty when none was asked for."""
    told: dict[int, list[object]] = {}
    for rank in run.ranks:
        for line in rank.told:
            if isinstance(line.get("curve"), int):
                told.setdefault(line["curve"], []).append(line.get("curve_s"))
    whole = {size: rounds for size, rounds in told.items() if len(rounds) == len(run.ranks)}
    found = {size: seconds for size, rounds in whole.items() if (seconds := _best(rounds)) is not None}
    size, seconds = best(run)
    if found and size and seconds:
        found[size] = seconds
    return dict(sorted(found.items()))


def as_facts(run: Run) -> list[Mapping[str, float]]:
    """The curve for a report: ``bytes``, ``us`` of one all-reduce, ``busbw`` in GB/s."""
    return [
        {"bytes": size, "us": round(seconds * 1e6, 2), "busbw": round(bus_rate(size, seconds, run.nranks), 7)}
        for size, seconds in curve(run).items()
    ]


def _best(medians: list[object]) -> float | None:
    rounds = [times for times in medians if isinstance(times, list) and times]
    if not rounds or len(rounds) < len(medians):
        return None
    return min(max(times) for times in zip(*rounds)) or None  # noqa: B905 - ranks of one program do the same rounds
