"""What was proven, before and after side by side, and every finding that was not pass. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from provision.report.document import Finding, Gate, Look
from provision.report.entries import Event, Journal, mappings, number, of, text

Key = tuple[str, str, str]
"""Host, service, gate."""
THIS, BEFORE, SOURCE, TARGET = "this run", "earlier in this run", "the source", "the target"
_STATUSES = ("fail", "unknown", "warn")


def gates(journals: Sequence[Journal], earlier: Mapping[Key, Look]) -> tuple[Gate, ...]:
    """``earlier``: what other runs of this controller saw last, for gates that this run asked once."""
    rows: dict[Key, dict[str, Look]] = {}
    sided = {(text(event, "service"), name(event)) for event in _asked(journals) if text(event, "side")}
    first = next(iter(of(journals[0].events, "run")), {})
    source = text(first, "source")
    for event in _asked(journals):
        if not text(event, "side") and (text(event, "service"), name(event)) in sided:
            # The target's, earlier in a migration; what counts is the last one, held against the source's.
            continue
        side = text(event, "side")
        host = "" if side in ("source", "target") else text(event, "host")
        row = rows.setdefault((host, text(event, "service"), name(event)), {})
        if side in ("source", "target"):
            row["before" if side == "source" else "after"] = look(
                event, SOURCE if side == "source" else TARGET
            )
            continue
        if "after" in row and row["after"].verdict != "skip":
            row["before"] = _renamed(row["after"], BEFORE)
        row["after"] = look(event, THIS)
    return tuple(
        Gate(
            *key, row.get("before") or earlier.get(key) or _of_source(key, source, earlier), row.get("after")
        )
        for key, row in rows.items()
    )


def _of_source(key: Key, source: str, earlier: Mapping[Key, Look]) -> Look | None:
    """In a migration from ``source``: what an earlier run saw of the same gate there."""
    if not source:
        return None
    found = (
        look
        for (host, service, gate), look in earlier.items()
        if (service, gate) == key[1:] and host.startswith(f"@guest/{source}/")
    )
    seen = next(found, None)
    return _renamed(seen, f"{SOURCE}, {seen.of}") if seen is not None else None


def _asked(journals: Sequence[Journal]) -> Iterator[Event]:
    for journal in journals:
        yield from of(journal.events, "gate", "checked")


def name(event: Event) -> str:
    """The gate's name; events of the GPUs' gate carry none."""
    return text(event, "gate") or "gpus"


def look(event: Event, whose: str) -> Look:
    return Look(
        text(event, "verdict") or "unknown",
        whose,
        text(event, "evidence"),
        number(event, "seconds"),
        text(event, "said"),
        text(event, "at"),
    )


def _renamed(seen: Look, whose: str) -> Look:
    return Look(seen.verdict, whose, seen.evidence, seen.seconds, seen.said, seen.when)


def seen_last(journals: Sequence[Journal]) -> dict[Key, Look]:
    """The last verdict of each gate in earlier runs; ``journals``: oldest first."""
    found: dict[Key, Look] = {}
    for journal in journals:
        for event in of(journal.events, "gate", "checked"):
            if text(event, "verdict") != "skip" and not text(event, "side"):
                key = (text(event, "host"), text(event, "service"), name(event))
                found[key] = look(event, f"run {journal.run}")
    return found


def evidence(journals: Sequence[Journal]) -> str:
    """``replayed`` as soon as one verdict rests on a record."""
    kinds = {text(event, "evidence") for event in _asked(journals) if text(event, "verdict") != "skip"}
    if "replayed" in kinds:
        return "replayed"
    return "live" if "live" in kinds else "none"


def findings(journals: Sequence[Journal]) -> tuple[Finding, ...]:
    """What was not pass, each once, the worst first; what is silenced last."""
    found: dict[tuple[str, str, str, str], Finding] = {}
    for journal in journals:
        for event in of(journal.events, "gate", "checked", "reading", "answers", "trial"):
            where = " ".join(filter(None, (text(event, "side"), text(event, "service"), name(event))))
            for one in mappings(event, "findings"):
                if text(one, "status") in _STATUSES:
                    made = _finding(one, where)
                    found[made.id, made.subject, made.message, where] = made
    order = {status: place for place, status in enumerate(_STATUSES)}
    return tuple(sorted(found.values(), key=lambda one: (bool(one.silence), order[one.status])))


def _finding(one: Event, where: str) -> Finding:
    unit = text(one, "unit")
    return Finding(
        text(one, "status"),
        text(one, "id"),
        text(one, "subject"),
        text(one, "message"),
        where,
        _figure(one.get("value"), unit),
        _figure(one.get("limit"), unit),
        text(one, "cause"),
        text(one, "fix"),
        _silence(one.get("silence")),
    )


def _figure(value: Any, unit: str) -> str:
    if value is None or isinstance(value, dict | list):
        return ""
    shown = f"{value:g}" if isinstance(value, float) else str(value)
    return f"{shown} {unit}".strip()


def _silence(given: Any) -> str:
    if not isinstance(given, dict):
        return ""
    return f"by {text(given, 'owner')} until {text(given, 'until')}: {text(given, 'reason')}"
