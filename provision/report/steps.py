"""How a run went, step by step: the chain's by the names of its operations, others by their events. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from provision.plan import Step as ChainStep
from provision.report.document import Change, Step
from provision.report.entries import Event, Journal, mappings, number, of, text, texts, when

FAILED, UNDONE, DONE, IDLE, OPEN = "failed", "undone", "done", "nothing to do", "under way"
_ENDS = {FAILED: FAILED, UNDONE: UNDONE, "undo failed": FAILED}
WITHIN = "the chain's own steps, within these"
MOVED = "moved"
"""The word of a migration whose steps are all done; it is no step."""
LEFT, NOT_REACHED = "left", "not reached"
IDLE_SECONDS = 0.05
"""A step that took less and changed nothing only looked at its plan."""
_NUMBERED = re.compile(r"(\d{1,2}) ")

Clock = Callable[[Event], float | None]
"""An event's seconds since the run began."""


def clock(journals: Sequence[Journal]) -> Clock:
    """Counts from the first event of all; of an event without a time None."""
    times = [found for one in journals for event in one.events if (found := when(event)) is not None]
    zero: datetime | None = min(times, default=None)

    def at(event: Event) -> float | None:
        found = when(event)
        return None if found is None or zero is None else (found - zero).total_seconds()

    return at


@dataclass
class _Span:
    """One step of the chain while it is gathered."""

    spans: list[tuple[float, float]] = field(default_factory=list)
    changes: int = 0
    failed: list[str] = field(default_factory=list)
    open: bool = False


def steps(journals: Sequence[Journal]) -> tuple[Step, ...]:
    """Of the run and of those that belong to it; each one's name is in ``of`` where there are several."""
    at = clock(journals)
    found: list[Step] = []
    for number_, journal in enumerate(journals):
        first = next(iter(of(journal.events, "run")), {})
        name = text(first, "reason") if number_ else ""
        own = _told(journal, at, name)
        found += [*own, *_chain(journal, at, (name or WITHIN) if own else name)]
    return tuple(found)


def _told(journal: Journal, at: Clock, name: str) -> list[Step]:
    """Steps that say themselves that they begin and end."""
    rows: dict[tuple[str, str], list[Event]] = {}
    for event in of(journal.events, "step"):
        if text(event, "step") == MOVED:
            continue
        rows.setdefault((text(event, "step"), text(event, "host")), []).append(event)
    return [_row(step, host, events, at, name) for (step, host), events in rows.items()]


def _row(step: str, host: str, events: Sequence[Event], at: Clock, name: str) -> Step:
    spans: list[tuple[float, float]] = []
    began: float | None = None
    for event in events:
        now = at(event)
        if text(event, "state") == "begin":
            began = now
        elif now is not None:
            took = number(event, "seconds")
            start = began if began is not None else now - (took or 0.0)
            spans.append((max(0.0, start), max(now, start)))
            began = None
    last = text(events[-1], "state")
    state = OPEN if last == "begin" else _ENDS.get(last, DONE)
    # What taking it back took is no part of the step, unless nothing else is known of it.
    own = [event for event in events if text(event, "state") != UNDONE] or events
    measured = [took for event in own if (took := number(event, "seconds")) is not None]
    seconds = sum(measured) if measured else sum(end - start for start, end in spans) if spans else None
    said = [text(event, "text") for event in events if text(event, "text")]
    why = [text(event, "why") for event in events if text(event, "why")]
    return Step(step, state, seconds, tuple(spans), host, "\n".join(said[-1:]), "\n".join(why), of=name)


def _chain(journal: Journal, at: Clock, name: str) -> list[Step]:
    """pyinfra carries out one operation on all hosts before the next, so the time from the first event of a step to
    the first one of the next is that step's."""
    rows: dict[int, _Span] = {}
    current: int | None = None
    since = last = 0.0

    def close(until: float) -> None:
        if current is not None:
            rows[current].spans.append((since, max(since, until)))

    for event in journal.events:
        now = at(event)
        kind = event.get("event")
        last = max(last, now) if now is not None else last
        named = _NUMBERED.match(text(event, "name")) if kind == "operation" else None
        if named is not None and int(named[1]) != current:
            close(last)
            current, since = int(named[1]), last
            rows.setdefault(current, _Span())
        elif kind == "end":
            close(last)
            current = None
        step = int(number(event, "step") or current or 0)
        row = rows.get(step)
        if row is None or kind not in ("begin", "done", "failed"):
            continue
        row.open = kind == "begin"
        row.changes += kind == "done"
        row.failed += [text(event, "why")] if kind == "failed" else []
    if current is not None:
        close(last)
        rows[current].open = True
    return [_of_chain(step, row, name) for step, row in rows.items()]


def _of_chain(step: int, row: _Span, name: str) -> Step:
    title = ChainStep(step).title if step in set(ChainStep) else ""
    seconds = sum(end - start for start, end in row.spans)
    state = (
        FAILED
        if row.failed
        else OPEN
        if row.open
        else DONE
        if row.changes or seconds >= IDLE_SECONDS
        else IDLE
    )
    why = "\n".join(dict.fromkeys(row.failed))
    return Step(
        f"{step} {title}".strip(), state, seconds, tuple(row.spans), why=why, changes=row.changes, of=name
    )


def changes(journals: Sequence[Journal]) -> tuple[Change, ...]:
    """Every item that was begun, in the order of time."""
    at = clock(journals)
    found: list[Change] = []
    for journal in journals:
        begun: dict[tuple[str, str, str], Event] = {}
        for event in of(journal.events, "begin", "done", "failed"):
            key = (text(event, "kind"), text(event, "host"), text(event, "subject"))
            if event["event"] == "begin":
                begun[key] = event
            elif key in begun:
                found.append(_change(begun.pop(key), event, at))
        found += [_change(event, None, at) for event in begun.values()]
        for event in of(journal.events, "rolled back"):
            host = text(event, "host")
            found += [Change("rollback", host, one, DONE, None) for one in texts(event, "back")]
            found += [Change("rollback", host, one, LEFT, None) for one in texts(event, "left")]
            if "whole" in event:
                said = (
                    "\n".join(texts(event, "said")) or "what this run changed on the machine was taken back"
                )
                found.append(
                    Change("the way back", host, said, DONE if event["whole"] is True else LEFT, None)
                )
    return tuple(found)


def not_reached(journals: Sequence[Journal], begun: Sequence[Change]) -> tuple[Change, ...]:
    """What the operator was shown and the run did not come to."""
    seen = {(change.host, change.text) for change in begun}
    return tuple(
        change
        for journal in journals
        for event in of(journal.events, "plan")
        for one in mappings(event, "items")
        if (change := replace(_change(one, None, lambda _: None), state=NOT_REACHED))
        and (change.host, change.text) not in seen
    )


def _change(begin: Event, end: Event | None, at: Clock) -> Change:
    started, ended = at(begin), at(end) if end is not None else None
    seconds = None if started is None or ended is None else max(0.0, ended - started)
    step = number(begin, "step")
    known = step is not None and step in set(ChainStep)
    title = f"{int(step)} {ChainStep(int(step)).title}" if known and step is not None else text(begin, "step")
    state = OPEN if end is None else FAILED if end["event"] == "failed" else DONE
    why = text(end, "why") if end is not None else ""
    return Change(title, text(begin, "host"), text(begin, "text"), state, seconds, texts(begin, "costs"), why)
