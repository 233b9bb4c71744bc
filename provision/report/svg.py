"""Small plots as SVG text: axes with units, series, a baseline, and a text alternative that holds the values. Pure.

Colours are classes of the page (``s0`` ... ``s5``, ``base``), so that a plot follows light and dark. Every text passes
``html.escape``; numbers are written by this module alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 340, 200
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 12, 10, 36
COLOURS = 6
"""Series beyond that take the colours again from the first."""
_LEAST = 1e-9
"""What is less is drawn as nothing."""
_ROW, _BAR = 34, 14
_MARKS = 24
"""A curve of more points has no mark at each."""


@dataclass(frozen=True)
class Series:
    """``points``: pairs of x and y. ``baseline``: what the others are held against; dashed, in one colour."""

    label: str
    points: tuple[tuple[float, float], ...]
    baseline: bool = False


@dataclass(frozen=True)
class Axis:
    """``ticks``: pairs of a place and its label; the axis goes from ``low`` to ``high``."""

    label: str
    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]


def short(value: float) -> str:
    """``1,234``, ``12.3``, ``0.85``: three figures, or whole."""
    if value == 0:
        return "0"
    digits = min(6, max(0, 2 - math.floor(math.log10(abs(value)))))
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def from_zero(label: str, values: Sequence[float], *, top: float | None = None) -> Axis:
    """An axis from 0 over the largest value, in steps of 1, 2 or 5; ``top`` ends it there."""
    high = top if top is not None else max(values, default=0.0)
    if not _LEAST < high < math.inf:
        high = 1.0
    raw = high / 5
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * 0.999)
    count = math.ceil(high / step - 1e-9)
    high = top if top is not None else count * step
    return Axis(label, 0.0, high, tuple((n * step, short(n * step)) for n in range(count + 1)))


def named(label: str, names: Sequence[str]) -> Axis:
    """An axis of names, at 0, 1, 2 ...; where there are many, not each is written."""
    every = max(1, -(-len(names) // 10))
    ticks = tuple((float(n), name) for n, name in enumerate(names) if n % every == 0)
    pad = 0.5 if len(names) == 1 else 0.0
    return Axis(label, -pad, max(0.0, len(names) - 1.0) + pad, ticks)


def lines(name: str, title: str, said: str, x: Axis, y: Axis, series: Sequence[Series]) -> str:
    """Curves over two axes. ``name`` is unique on the page; ``said`` the text alternative."""
    right, bottom = WIDTH - _RIGHT, HEIGHT - _BOTTOM

    def across(value: float) -> float:
        return _LEFT + (right - _LEFT) * _share(value, x)

    def up(value: float) -> float:
        return bottom - (bottom - _TOP) * _share(value, y)

    parts = []
    for place, label in y.ticks:
        at = up(place)
        parts.append(_line(_LEFT, at, right, at, "grid"))
        parts.append(_text(_LEFT - 5, at + 3.5, label, "tick", "end"))
    for place, label in x.ticks:
        parts.append(_text(across(place), bottom + 13, label, "tick", "middle"))
    parts.append(_line(_LEFT, bottom, right, bottom, "axis"))
    parts.append(_text((_LEFT + right) / 2, HEIGHT - 6, x.label, "label", "middle"))
    middle = (_TOP + bottom) / 2
    parts.append(
        f'<text class="label" text-anchor="middle" transform="rotate(-90 10 {middle:.1f})" x="10" y="{middle:.1f}">'
        f"{escape(y.label)}</text>"
    )
    for one, shade in zip(series, shades(series), strict=True):
        points = [(across(a), up(b)) for a, b in one.points]
        if len(points) > 1:
            path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
            parts.append(f'<polyline class="curve {shade}" points="{path}"/>')
        if len(points) <= _MARKS:
            parts += [f'<circle class="mark {shade}" cx="{a:.1f}" cy="{b:.1f}" r="3"/>' for a, b in points]
    return _whole(name, title, said, HEIGHT, parts)


def bars(name: str, title: str, said: str, unit: str, rows: Sequence[tuple[str, float, bool]]) -> str:
    """Bars from left to right, each below its label; the first row whose last part is True is the baseline, which is
    a line through the others as well."""
    axis = from_zero(unit, [value for _, value, _ in rows])
    left, right = 8, WIDTH - 40
    bottom = _TOP + _ROW * len(rows) + 4

    def across(value: float) -> float:
        return left + (right - left) * _share(value, axis)

    parts = []
    for place, label in axis.ticks:
        parts.append(_line(across(place), _TOP, across(place), bottom, "grid"))
        parts.append(_text(across(place), bottom + 13, label, "tick", "middle"))
    parts.append(_line(left, bottom, right, bottom, "axis"))
    parts.append(_text((left + right) / 2, bottom + 28, unit, "label", "middle"))
    given = shades([Series(label, (), held) for label, _, held in rows])
    for number, (label, value, _) in enumerate(rows):
        top = _TOP + _ROW * number
        wide = max(1.0, across(value) - left)
        parts.append(_text(left, top + 11, _cut(label), "tick", "start"))
        parts.append(
            f'<rect class="bar {given[number]}" x="{left}" y="{top + 15}" width="{wide:.1f}" height="{_BAR}" rx="2"/>'
        )
        parts.append(_text(left + wide + 4, top + 15 + _BAR - 3, short(value), "value", "start"))
    held = next((value for _, value, baseline in rows if baseline), None)
    if held is not None:
        parts.append(_line(across(held), _TOP, across(held), bottom, "held"))
    return _whole(name, title, said, bottom + 34, parts)


def shades(series: Sequence[Series]) -> list[str]:
    """The class of each: ``base`` for baselines, ``s0`` and on for the others."""
    found, count = [], 0
    for one in series:
        found.append("base" if one.baseline else f"s{count % COLOURS}")
        count += not one.baseline
    return found


def _share(value: float, axis: Axis) -> float:
    wide = axis.high - axis.low
    return min(1.0, max(0.0, (value - axis.low) / wide)) if wide > 0 else 0.0


def _cut(label: str, most: int = 52) -> str:
    return label if len(label) <= most else f"{label[: most - 1]}…"


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _text(x: float, y: float, said: str, kind: str, anchor: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(said)}</text>'


def _whole(name: str, title: str, said: str, height: float, parts: Sequence[str]) -> str:
    return (
        f'<svg role="img" aria-labelledby="{name}-t {name}-d" viewBox="0 0 {WIDTH} {height:.0f}">'
        f'<title id="{name}-t">{escape(title)}</title><desc id="{name}-d">{escape(said)}</desc>'
        f"{''.join(parts)}</svg>"
    )
