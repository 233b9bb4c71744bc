"""Several kernel logs whose times cannot be compared, as one. Pure.

What heals an error heals it in its own log alone: a load of the driver or a reset in another one may have been before
it, or on another machine. So what is past in its log is past, and what is in force in any log stays in force; the
order in which the logs are given has no part in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from checks.gpus import kernel_events, kernlog
from checks.gpus.kernel_events import Event, What, since_boot
from checks.gpus.kernlog import KernelLog
from checks.record import Section

_BY_LOAD = frozenset({What.XID, What.FALLEN, What.SXID, What.PROBE})
_BY_RESET = frozenset({What.XID, What.FALLEN, What.AER})
_HEALERS = frozenset({What.LOAD, What.RESET})


def parse(sections: Iterable[Section]) -> KernelLog:
    """The kernel log of a record: its section, and those of other logs that ``path`` gave a place beside it."""
    ours = [one for one in sections if is_one(one)]
    return joined([kernlog.parse(one) for one in ours]) if ours else kernlog.parse(None)


def is_one(section: Section) -> bool:
    return section.kind == kernlog.KIND and section.path.partition("#")[0] == kernlog.PATH


def path(number: int) -> str:
    """The path of the section of the n-th log, from 0."""
    return f"{kernlog.PATH}#{number}" if number else kernlog.PATH


def joined(logs: Sequence[KernelLog]) -> KernelLog:
    """Those that could be read, as one; else the first."""
    told = sorted((log for log in logs if log.error is None), key=lambda log: (log.lines, str(log.events)))
    if len(told) < 2:
        return told[0] if told else logs[0]
    past: list[Event] = []
    now: list[Event] = []
    healers: list[Event] = []
    for log in told:
        events = since_boot(log.events)
        for at, event in enumerate(events):
            over = event.what not in _HEALERS and _over(events, at)
            (healers if event.what in _HEALERS else past if over else now).append(event)
    return KernelLog(
        tuple(_lines(told)), events=(*past, *healers, *now), silent=all(log.silent for log in told)
    )


def _over(events: Sequence[Event], at: int) -> bool:
    """Whether a later event of the same log made an end of this one."""
    mine, later = events[at], events[at + 1 :]
    if mine.number == 154 and mine.what is What.XID:
        # the newest message on the recovery that is asked for is the one that holds, unless it asks for none
        newer = any(one.number == 154 and one.bdf == mine.bdf for one in later)
        if newer or mine.action == 0:
            return True
    return any(
        (one.what is What.LOAD and mine.what in _BY_LOAD)
        or (one.what is What.RESET and mine.what in _BY_RESET and one.bdf is not None and one.bdf == mine.bdf)
        for one in later
    )


def _lines(logs: Sequence[KernelLog]) -> Iterator[str]:
    """The lines before each log's last start of the module, the starts, and what each log says since then."""
    recent = [list(log.recent) for log in logs]
    starts = [[line for line in lines[:1] if kernel_events.opens(line)] for lines in recent]
    for log, since in zip(logs, recent, strict=True):
        yield from log.lines[: len(log.lines) - len(since)]
    for start in starts:
        yield from start
    for start, since in zip(starts, recent, strict=True):
        yield from since[len(start) :]
