"""NVML is asked while the command line is still being understood: importing takes as long as the answer does."""

from __future__ import annotations

from collections.abc import Sequence

from checks.gpus.supervise import Reading

_NOT_HERE = ("--replay", "--host", "--help", "-h")
"""With these the command does not read this machine's NVML."""

_started: list[Reading] = []


def start(args: Sequence[str]) -> None:
    """Starts the child of ``provcheck gpus ARGS`` unless the arguments speak of another source."""
    if not any(arg.split("=")[0] in _NOT_HERE for arg in args):
        _started.append(Reading(600.0))


def take(deadline: float) -> Reading | None:
    """The reading that was started, now held to ``deadline``; None when none was."""
    if not _started:
        return None
    reading = _started.pop()
    reading.limit(deadline)
    return reading


def stop() -> None:
    """Abandons a reading that nobody took: the command line was wrong."""
    while _started:
        _started.pop().stop()
