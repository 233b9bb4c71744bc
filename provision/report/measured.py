"""What was measured: cut-overs and candidates, readings of speed and acceptance, the copy, the downtime. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from provision.report.document import Answers, Candidate, Copy, Downtime, Moved, Reading
from provision.report.entries import Event, Journal, mappings, number, numbers, of, text, texts
from provision.report.figures import size
from provision.report.steps import Clock, clock

_MOST_SAMPLES = 400
"""Points of one curve: more than a screen has columns for."""


def _all(journals: Sequence[Journal], *kinds: str) -> list[Event]:
    return [event for journal in journals for event in of(journal.events, *kinds)]


def candidates(journals: Sequence[Journal]) -> tuple[Candidate, ...]:
    """Every cut-over, forecast beside figures."""
    return tuple(
        Candidate(
            text(event, "host"),
            text(event, "service"),
            text(event, "profile"),
            event.get("candidate") is True,
            text(event, "mode"),
            text(event, "verdict"),
            text(event, "forecast"),
            number(event, "forecast_s"),
            number(event, "downtime_s"),
            number(event, "start_s"),
            number(event, "measured_s"),
            number(event, "tok_s"),
            number(event, "acceptance"),
            text(event, "why"),
        )
        for event in _all(journals, "trial")
    )


def readings(journals: Sequence[Journal]) -> tuple[Reading, ...]:
    """The baseline that a profile was held to comes before the profile; a reading says which it is."""
    found: list[Reading] = []
    for event in _all(journals, "trial", "reading"):
        service = text(event, "service")
        if event.get("event") == "reading":
            side = text(event, "side")
            held = text(event, "what") == "baseline"
            label = " ".join(
                filter(None, (f"the {side}" if side else "", "baseline" if held else "measured"))
            )
            found.append(_reading(event, service, label, baseline=held))
            continue
        given: Any = event.get("reading")
        baseline: Any = event.get("baseline")
        if isinstance(baseline, dict):
            found.append(_reading(baseline, service, "the baseline", baseline=True))
        facts = {**event, **(given if isinstance(given, dict) else {})}
        found.append(_reading(facts, service, text(event, "profile") or "measured", baseline=False))
    return tuple(one for one in dict.fromkeys(found) if one.tok_s or one.acceptance or one.by_concurrency)


def _reading(facts: Event, service: str, label: str, *, baseline: bool) -> Reading:
    levels: Any = facts.get("by_concurrency")
    rates = {
        int(level): rate
        for level in (levels if isinstance(levels, dict) else {})
        if level.isascii() and level.isdecimal() and len(level) < 7
        if (rate := number(levels, level)) is not None
    }
    tok_s = number(facts, "tok_s")
    if tok_s is not None and rates:
        rates.setdefault(1, tok_s)
    shares = tuple(min(share, 1.0) for share in numbers(facts, "per_position"))[:64]
    length = number(facts, "acceptance")
    return Reading(
        service,
        label,
        baseline,
        tok_s,
        tuple(sorted(rates.items())),
        length,
        shares,
        number(facts, "ttft_ms"),
    )


def downtimes(journals: Sequence[Journal]) -> tuple[Downtime, ...]:
    """Of each cut-over that could have one; a service that was not up had none."""
    found = [
        Downtime(
            text(event, "service"), number(event, "seconds"), number(event, "forecast_s"), text(event, "said")
        )
        for event in _all(journals, "downtime")
    ]
    for one in candidates(journals):
        if one.downtime_s is not None or (one.forecast_s and one.verdict):
            found.append(Downtime(one.service, one.downtime_s, one.forecast_s, one.mode))
    return tuple(found)


def copies(journals: Sequence[Journal]) -> tuple[Copy, ...]:
    """By step: its end where it says one, else what its last sample says."""
    at = clock(journals)
    rows: dict[str, list[Event]] = {}
    for event in _all(journals, "progress", "copied"):
        rows.setdefault(text(event, "step") or "copy", []).append(event)
    return tuple(_copy(step, events, at) for step, events in rows.items())


def _copy(step: str, events: Sequence[Event], at: Clock) -> Copy:
    samples = [
        (now, done)
        for event in of(events, "progress")
        if (now := at(event)) is not None and (done := number(event, "bytes_done")) is not None
    ]
    whole = next(reversed(of(events, "copied")), None)
    last = events[-1]
    amount = number(whole, "bytes") if whole is not None else number(last, "bytes_done")
    seconds = number(whole, "seconds") if whole is not None else None
    if seconds is None and len(samples) > 1:
        seconds = samples[-1][0] - samples[0][0]
    rate = number(whole or last, "rate") or (amount / seconds if amount and seconds else None)
    files = number(whole, "files") if whole is not None else None
    return Copy(
        step,
        amount,
        next((found for one in reversed(events) if (found := number(one, "bytes_total")) is not None), None),
        seconds,
        rate,
        None if files is None else int(files),
        text(whole or {}, "route"),
        "done" if whole is not None else text(last, "state") or "under way",
        texts(whole or {}, "differences"),
        tuple(samples[:: max(1, -(-len(samples) // _MOST_SAMPLES))]),
    )


def answers(journals: Sequence[Journal]) -> tuple[Answers, ...]:
    return tuple(
        Answers(
            text(event, "verdict") or "unknown",
            None if (compared := number(event, "compared")) is None else int(compared),
            number(event, "first_token_share"),
            number(event, "least_share"),
            number(event, "logprob_diff"),
            number(event, "tolerance"),
            event.get("exact") is True,
            text(event, "said"),
        )
        for event in _all(journals, "answers")
    )


def _how(one: Event) -> str:
    amount, files = number(one, "bytes"), number(one, "files")
    parts = [
        text(one, "how"),
        size(amount) if amount else "",
        f"{files:.0f} files" if files else "",
        text(one, "note"),
    ]
    return ", ".join(part for part in parts if part)


def moved(journals: Sequence[Journal]) -> tuple[Moved, ...]:
    """What moves, then what does not."""
    found = []
    for event in _all(journals, "plan"):
        found += [Moved(text(one, "what"), _how(one)) for one in mappings(event, "moves")]
        found += [Moved(text(one, "what"), text(one, "why"), stays=True) for one in mappings(event, "stays")]
    return tuple(dict.fromkeys(found))
