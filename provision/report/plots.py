"""Which plots a report has: speed, acceptance, the copy. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from provision.report.document import Copy, Reading, Report
from provision.report.figures import NONE
from provision.report.svg import Axis, Series, bars, from_zero, lines, named, shades, short

GIB, MIB = 1 << 30, 1 << 20


@dataclass(frozen=True)
class Plot:
    """``svg`` is safe to stand in a page. ``legend``: classes and labels; ``head`` and ``rows``: its table."""

    title: str
    svg: str
    legend: tuple[tuple[str, str], ...]
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def plots(report: Report) -> tuple[Plot, ...]:
    """Of each service with a reading, and of each copy with at least two samples."""
    found: list[Plot] = []
    named_ = sorted(report.readings, key=lambda one: one.service)
    for service, group in groupby(named_, key=lambda one: one.service):
        for plot in _of_service(service, tuple(group), len(found)):
            found.append(plot)
    for copy in report.copies:
        found += _of_copy(copy, len(found))
    return tuple(found)


def _of_service(service: str, readings: Sequence[Reading], number: int) -> Iterator[Plot]:
    speed = [(one.label, one.tok_s, one.baseline) for one in readings if one.tok_s is not None]
    if speed:
        title = f"{service}: decode speed of one request"
        yield Plot(
            title,
            bars(f"p{number}", title, _listed(speed, "tok/s"), "tok/s", speed),
            (),
            ("reading", "tok/s"),
            tuple((label, short(value)) for label, value, _ in speed),
        )
    if any(len(one.by_concurrency) > 1 for one in readings):
        yield _by_concurrency(service, [one for one in readings if one.by_concurrency], f"p{number}c")
    if any(one.per_position for one in readings):
        yield _acceptance(service, [one for one in readings if one.per_position], f"p{number}a")
    lengths = [(one.label, one.acceptance, one.baseline) for one in readings if one.acceptance is not None]
    if lengths:
        title = f"{service}: mean acceptance length"
        yield Plot(
            title,
            bars(f"p{number}l", title, _listed(lengths, "tokens a step"), "tokens a step", lengths),
            (),
            ("reading", "tokens a step"),
            tuple((label, short(value)) for label, value, _ in lengths),
        )


def _by_concurrency(service: str, readings: Sequence[Reading], name: str) -> Plot:
    levels = sorted({level for one in readings for level, _ in one.by_concurrency})
    series = [
        Series(
            one.label,
            tuple((float(levels.index(level)), rate) for level, rate in one.by_concurrency),
            one.baseline,
        )
        for one in readings
    ]
    rows = tuple(
        (str(level), *(_or_dash(dict(one.by_concurrency).get(level)) for one in readings)) for level in levels
    )
    title = f"{service}: decode speed of each request, by how many there are"
    y = from_zero("tok/s each", [rate for one in readings for _, rate in one.by_concurrency])
    x = named("requests at once", [str(level) for level in levels])
    return _curves(name, title, x, y, series, ("requests at once", *(one.label for one in readings)), rows)


def _acceptance(service: str, readings: Sequence[Reading], name: str) -> Plot:
    most = max(len(one.per_position) for one in readings)
    series = [
        Series(
            one.label,
            tuple((float(place), share) for place, share in enumerate(one.per_position)),
            one.baseline,
        )
        for one in readings
    ]
    rows = tuple(
        (
            str(place + 1),
            *(
                _or_dash(one.per_position[place] if place < len(one.per_position) else None)
                for one in readings
            ),
        )
        for place in range(most)
    )
    title = f"{service}: drafts accepted, by position"
    x = named("position of the draft", [str(place + 1) for place in range(most)])
    y = from_zero("share accepted", (), top=1.0)
    return _curves(name, title, x, y, series, ("position", *(one.label for one in readings)), rows)


def _of_copy(copy: Copy, number: int) -> list[Plot]:
    if len(copy.samples) < 2:
        return []
    most = max(copy.total or 0.0, max(size for _, size in copy.samples))
    unit, scale = ("GiB", GIB) if most >= GIB else ("MiB", MIB)
    start = copy.samples[0][0]
    points = tuple((at - start, size / scale) for at, size in copy.samples)
    title = f"{copy.step}: copied over time"
    x = from_zero("seconds", [at for at, _ in points])
    y = from_zero(unit, [most / scale])
    some = points[:: max(1, len(points) // 20)]
    rows = tuple((short(at), short(size)) for at, size in some)
    return [_curves(f"p{number}y", title, x, y, [Series("copied", points)], ("seconds", unit), rows)]


def _curves(
    name: str,
    title: str,
    x: Axis,
    y: Axis,
    series: Sequence[Series],
    head: tuple[str, ...],
    rows: tuple[tuple[str, ...], ...],
) -> Plot:
    said = "; ".join(
        ", ".join(f"{column} {cell}" for column, cell in zip(head, row, strict=True)) for row in rows
    )
    legend = tuple(zip(shades(series), (one.label for one in series), strict=True))
    return Plot(title, lines(name, title, said, x, y, series), legend if len(series) > 1 else (), head, rows)


def _listed(rows: Sequence[tuple[str, float, bool]], unit: str) -> str:
    return "; ".join(f"{label}: {short(value)} {unit}" for label, value, _ in rows)


def _or_dash(value: float | None) -> str:
    return NONE if value is None else short(value)
