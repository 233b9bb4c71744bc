"""Kernel logs that are given together, put in the order of their times where that is sure. Pure.

Sure is: two logs of journalctl or syslog that name the same machine, with times of one form; or two with the kernel's
own microseconds that share a line, which two boots do not. All others stay apart (``kernlogs``). Logs that name
different machines are refused.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import pairwise
from typing import NamedTuple

from checks.errors import BadInput
from checks.gpus import kernel_events, kernlog
from checks.gpus.kernel_events import What

_ZONED = re.compile(r"^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,](\d{1,6})\d*)?(Z|[+-]\d\d:?\d\d) ")
_SYSLOG = re.compile(r"^([A-Z][a-z]{2}) +(\d{1,2}) (\d\d):(\d\d):(\d\d)(\.\d+)? ")
_SECONDS = re.compile(r"^(?:<\d+>)?\[ *(\d{1,12}\.\d{6})\]")
_RECORD = re.compile(r"^\d{1,4},\d+,(\d{1,18}),[^;]*;")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_HALF_A_YEAR = 183 * 86400
_HEAL, _ERRORS = {What.LOAD, What.RESET}, {What.XID, What.FALLEN, What.SXID, What.AER}


class Log(NamedTuple):
    """``form`` empty: its times give no order. ``times``: of each line, in seconds, never falling."""

    lines: tuple[str, ...]
    form: str
    times: tuple[float, ...]
    hosts: frozenset[str]


def hosts(lines: Iterable[str]) -> frozenset[str]:
    return frozenset(filter(None, map(kernel_events.host, lines)))


def one_machine(lines: Iterable[str], what: str) -> None:
    """Raises BadInput when the lines name several machines: a boot of one would clear the errors of another."""
    names = sorted(hosts(lines))
    if len(names) > 1:
        raise BadInput(
            f"{what} of several machines ({', '.join(names[:4])}): a boot of one would hide the errors of another;"
            f" replay them one by one (of one file: grep ' {names[0]} kernel:' FILE)"
        )


def together(texts: Sequence[str]) -> list[str]:
    """The logs as few as may be: those whose order is sure are one. Raises BadInput for those of several machines."""
    one_machine((line for text in texts for line in text.splitlines()), "these are kernel logs")
    groups: list[list[Log]] = []
    for log in sorted(_log(text) for text in set(texts)):
        home = next((group for group in groups if all(_sure(log, other) for other in group)), None)
        groups.append([log]) if home is None else home.append(log)
    return ["".join(f"{line}\n" for line in _merged(group)) for group in groups]


def _log(text: str) -> Log:
    lines = tuple(line for line in text.splitlines() if line.strip())
    found = [_time(line) for line in lines]
    if not any(found):
        return Log(lines, "", (), hosts(lines))
    forms = {form for form, _ in filter(None, found)}
    times: list[float] = []
    for at, one in enumerate(
        found
    ):  # the mark of a boot has the time of what follows it, the rest of a message its own
        after = next((later for later in found[at:] if later is not None), None)
        mark = lines[at].startswith("-- ")
        times.append(
            one[1] if one else after[1] if after and (mark or not times) else times[-1] if times else 0.0
        )
    falls = any(later < earlier for earlier, later in pairwise(times))
    form = forms.pop() if len(forms) == 1 and not falls else ""
    return Log(lines, form, tuple(times), hosts(lines))


def _time(line: str) -> tuple[str, float] | None:
    """(form, seconds) of a line; a date without year counts in one of 366 days."""
    if found := _ZONED.match(line):
        zone = found[4].replace("Z", "+00:00")
        zone = zone if ":" in zone else f"{zone[:3]}:{zone[3:]}"
        try:
            moment = datetime.fromisoformat(f"{found[1]}T{found[2]}.{(found[3] or '0').ljust(6, '0')}{zone}")
            return "zoned", moment.timestamp()
        except (ValueError, OverflowError):
            return None
    if (found := _SYSLOG.match(line)) and found[1] in _MONTHS:
        days = _MONTHS.index(found[1]) * 31 + int(found[2])
        clock = int(found[3]) * 3600 + int(found[4]) * 60 + int(found[5])
        return "syslog", days * 86400 + clock + float(found[6] or 0)
    if found := _SECONDS.match(line):
        return "seconds", float(found[1])
    found = _RECORD.match(line)
    return ("record", int(found[1]) / 1e6) if found else None


def _sure(one: Log, other: Log) -> bool:
    """Whether the order of the lines of both is known."""
    if one.form != other.form or not one.form:
        return False
    if one.form in ("zoned", "syslog"):
        span = (*one.times, *other.times)
        if not one.hosts or one.hosts != other.hosts or max(span) - min(span) > _HALF_A_YEAR:
            return False
    elif not any(_telling(line) for line in set(one.lines) & set(other.lines)):
        return False
    return not (_tie(one, other) or _tie(other, one))


def _telling(line: str) -> bool:
    """Whether no other boot has this line: its microseconds are no round number, and not those of the first second."""
    found = _time(line)
    return found is not None and found[1] > 1 and round(found[1] * 1e6) % 1000 != 0


def _tie(one: Log, other: Log) -> bool:
    """Does what would heal an error of the one log bear the same time in the other? Which was first is not known."""
    both = set(one.lines) & set(other.lines)
    errors = {
        at for at, line in zip(one.times, one.lines, strict=True) if line not in both and _is(line, _ERRORS)
    }
    return any(
        at in errors
        for at, line in zip(other.times, other.lines, strict=True)
        if line not in both and _is(line, _HEAL)
    )


def _is(line: str, kinds: set[What]) -> bool:
    return any(event.what in kinds for event in kernel_events.events([kernel_events.bare(line)]))


def _merged(logs: Sequence[Log]) -> list[str]:
    """All lines by time; a line that several logs have is there as often as in the one that has it most."""
    if len(logs) == 1:
        return list(logs[0].lines)
    found: list[tuple[float, str]] = []
    for log in logs:
        known = Counter(line for _, line in found)
        for at, line in zip(log.times, log.lines, strict=True):
            if known[line] > 0:
                known[line] -= 1
            else:
                found.append((at, line))
    found.sort(key=lambda pair: pair[0])
    return kernlog.few([line for _, line in found])
