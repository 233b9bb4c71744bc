"""The report as one HTML page: nothing is fetched, nothing runs, every text is escaped by the template engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from provision.report import figures
from provision.report.document import Report, Step
from provision.report.plots import plots
from provision.report.steps import IDLE

_BAR = 1000
_LEAST = 4
"""A bar's length in its own units, and the least that can be seen of it."""
_MOST_EVENTS = 1500
"""Lines of the journal in a page."""


@dataclass(frozen=True)
class Row:
    """A step with its bars: pairs of start and length, of ``_BAR``."""

    step: Step
    bars: tuple[tuple[int, int], ...]


def html(report: Report) -> str:
    """The page. jinja2 is imported here, where it is needed."""
    from markupsafe import Markup

    from provision.templates import render

    return render(
        "report.html.j2",
        r=report,
        rows=_rows(report),
        idle=[step for step in report.steps if step.state == IDLE],
        # Made by provision.report.svg, which escapes every text itself.
        plots=[(plot, Markup(plot.svg)) for plot in plots(report)],
        events=[_event(event) for event in report.events[:_MOST_EVENTS]],
        more_events=max(0, len(report.events) - _MOST_EVENTS),
        f=figures,
        bar=_BAR,
    )


def _rows(report: Report) -> list[Row]:
    busy = [step for step in report.steps if step.state != IDLE]
    ends = [end for step in busy for _, end in step.spans]
    whole = max(ends, default=0.0)
    return [Row(step, tuple(_bar(start, end, whole) for start, end in step.spans)) for step in busy]


def _bar(start: float, end: float, whole: float) -> tuple[int, int]:
    if whole <= 0:
        return 0, _BAR
    long = max(_LEAST, round(_BAR * (end - start) / whole))
    return min(round(_BAR * start / whole), _BAR - long), long


def _event(event: Mapping[str, Any]) -> tuple[str, str, str]:
    facts = {name: value for name, value in event.items() if name not in ("at", "run", "event")}
    said = "  ".join(f"{name}={value}" for name, value in facts.items() if value not in (None, [], ""))
    at = str(event.get("at") or "")
    return at[11:23] if len(at) > 22 else at, str(event.get("event")), said
