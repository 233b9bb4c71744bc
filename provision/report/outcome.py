"""What was asked, and how it ended. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import chain

from provision.report.document import Asked, Outcome, Refusal
from provision.report.entries import Event, Journal, end, mappings, number, of, text, texts, when
from provision.run.errors import (
    EXIT_DONE,
    EXIT_LOCKED,
    EXIT_PENDING,
    EXIT_REFUSED,
    EXIT_USAGE,
    EXITS_TOLD,
)

DONE, IN_SYNC, FAILED, REFUSED, LOCKED, PENDING, INTERRUPTED, OPEN, TAKEN_BACK, NOT_BEGUN = (
    "done",
    "in sync",
    "failed",
    "refused",
    "locked",
    "reboot pending",
    "interrupted",
    "did not end",
    "taken back",
    "not begun",
)
UNTOUCHED = (REFUSED, NOT_BEGUN)
"""Nothing was changed, so nothing is to be taken back."""
_TEXTS = {
    DONE: "everything that was asked for is done",
    IN_SYNC: "nothing had to be changed",
    FAILED: "it did not end as it must",
    REFUSED: "nothing was touched; each reason has its next step below",
    LOCKED: "another run held a machine; nothing was touched there",
    PENDING: "what comes before a reboot is done; the rest comes after it",
    INTERRUPTED: "it was interrupted; run it again to go on from what is there",
    OPEN: "the journal has no end: it is still under way, or its controller was killed",
    TAKEN_BACK: "what had begun was taken back",
    NOT_BEGUN: "nothing was changed: usage, a bad inventory, or nobody to ask",
}
_BY_EXIT = {
    EXIT_REFUSED: REFUSED,
    EXIT_LOCKED: LOCKED,
    EXIT_PENDING: PENDING,
    **dict.fromkeys(EXITS_TOLD, INTERRUPTED),
    EXIT_USAGE: NOT_BEGUN,
}
CHANGES = ("done", "rolled back")


def asked(journal: Journal, others: Sequence[Journal]) -> Asked:
    """What the first event and the locks say of a run; ``others``: runs that belong to it."""
    first = next(iter(of(journal.events, "run")), {})
    reason = text(first, "reason")
    everything = [*journal.events, *chain.from_iterable(one.events for one in others)]
    times = [found for event in journal.events if (found := when(event)) is not None]
    owners = [text(event, "owner") for event in of(everything, "locked")]
    names = [
        *(text(event, "machine") for event in of(everything, "plan", "locked")),
        text(first, "source"),
        text(first, "target"),
    ]
    if not any(names):
        names = [text(event, "host") for event in everything if not text(event, "host").startswith("@guest/")]
    span = max(times) - min(times) if times else None
    return Asked(
        command=reason if reason == "pyinfra" or not reason else f"provision {reason}",
        kind=reason.split(" ", 1)[0] if reason else "",
        by=text(first, "by") or next(iter(owners), ""),
        phases=texts(first, "phases"),
        machines=_once(names),
        services=_once([text(first, "service"), *(text(event, "service") for event in everything)]),
        began=_iso(times[:1]),
        ended=_iso(times[-1:]) if end(journal) is not None else "",
        seconds=None if span is None else span / timedelta(seconds=1),
        version=text(first, "version"),
        source=text(first, "source"),
        target=text(first, "target"),
    )


def _iso(times: Sequence[datetime]) -> str:
    return times[0].isoformat(timespec="milliseconds") if times else ""


def _once(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in names if name))


def outcome(journal: Journal, others: Sequence[Journal]) -> Outcome:
    """How a run ended, with every reason once."""
    own = journal.events
    everything = [*own, *chain.from_iterable(one.events for one in others)]
    ended = end(journal)
    code = number(ended, "exit") if ended is not None else None
    steps = of(own, "step")
    # The last word counts: what was taken back and then moved after all is moved.
    undone = bool(steps) and text(steps[-1], "state") == "undone"
    changed = any(event.get("event") in CHANGES for event in everything) or bool(steps)
    why = _once(
        text(event, "why")
        for event in everything
        if event.get("event") == "failed"
        or (event.get("event") == "step" and text(event, "state") == "failed")
    )
    if ended is None or code is None:
        state = OPEN
    elif code == EXIT_DONE:
        state = TAKEN_BACK if undone else DONE if changed else IN_SYNC
    elif code in _BY_EXIT:
        state = _BY_EXIT[int(code)]
    else:
        state = TAKEN_BACK if undone else FAILED
    said = _TEXTS[state]
    if state == TAKEN_BACK and code:
        said += " after a failure"
    failed = texts(ended, "failed") if ended is not None else ()
    if failed and state == FAILED:
        said += f": {', '.join(failed)}"
    if state == FAILED and any(event.get("whole") is True for event in of(everything, "rolled back")):
        said += "; what it changed on the machine was taken back"
    if any(
        event.get("candidate") is True and text(event, "verdict") == "refused"
        for event in of(everything, "trial")
    ):
        said += "; a candidate was refused, and what served before goes on"
    well = code == EXIT_DONE and not why
    if code == EXIT_DONE and why:
        said += "; what did not work out on the way is below"
    return Outcome(state, None if code is None else int(code), said, well, why, _next(state, own))


def _next(state: str, events: Sequence[Event]) -> tuple[str, ...]:
    """What an operator does now, as far as the end of the run says it by itself."""
    command = text(next(iter(of(events, "run")), {}), "reason")
    if not command or command == "pyinfra":
        return ()
    if command.startswith("migrate ") and state in (FAILED, INTERRUPTED, OPEN):
        return (f"provision {command} --resume", f"provision {command} --rollback")
    if state in (FAILED, LOCKED, INTERRUPTED, OPEN, REFUSED, NOT_BEGUN):
        return (f"provision {command}",)
    return (f"provision {command} --reboot",) if state == PENDING else ()


def refusals(events: Sequence[Event]) -> tuple[Refusal, ...]:
    """Every reason why nothing was touched, with its next step."""
    return tuple(
        Refusal(
            text(event, "machine"),
            text(one, "where"),
            text(one, "seen"),
            text(one, "why"),
            text(one, "next"),
        )
        for event in of(events, "plan")
        for one in mappings(event, "refusals")
    )
