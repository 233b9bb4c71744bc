"""How long the engine's threads were ready and got no CPU, from the scheduler's own account of each thread.

``/proc/PID/task/TID/schedstat`` holds nanoseconds on a CPU and nanoseconds waiting for one (Linux
``Documentation/scheduler/sched-stats.rst``). Of an engine that owns its cores the second hardly grows.
"""

from __future__ import annotations

from pathlib import Path

MAX_THREADS = 4096
LEAST_NS = 100_000_000
"""A thread that ran and waited for less than this in the window says nothing about it."""

Account = dict[str, tuple[int, int]]


def account(pid: int, proc: Path = Path("/proc")) -> Account:
    """(running, waiting) nanoseconds of every thread of a process and its descendants; what is gone is left out."""
    found: Account = {}
    left, seen = [str(pid)], {str(pid)}
    while left and len(found) < MAX_THREADS:
        folder = proc / left.pop() / "task"
        try:
            threads = [entry.name for entry in folder.iterdir()]
        except OSError:
            continue
        for thread in threads:
            if (times := _times(folder / thread / "schedstat")) is not None:
                found[thread] = times
            for child in _words(folder / thread / "children"):
                if child.isdecimal() and child not in seen:
                    seen.add(child)
                    left.append(child)
    return found


def waited(before: Account, after: Account) -> float | None:
    """The share of its time, 0 to 1, that the busiest thread waited for a CPU; None when none did much."""
    spent = [
        (run - before[thread][0], wait - before[thread][1])
        for thread, (run, wait) in after.items()
        if thread in before
    ]
    run, wait = max(spent, key=sum, default=(0, 0))
    if run < 0 or wait < 0 or run + wait < LEAST_NS:
        return None
    return wait / (run + wait)


def _times(path: Path) -> tuple[int, int] | None:
    words = _words(path)
    if len(words) < 2 or not all(word.isdecimal() for word in words[:2]):
        return None
    return int(words[0]), int(words[1])


def _words(path: Path) -> list[str]:
    try:
        return path.read_text()[:65536].split()
    except OSError:
        return []
