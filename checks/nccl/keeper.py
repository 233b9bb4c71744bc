"""Outlives a parent that is killed (``_probe nccl-keeper``), and then removes the shared memory of its ranks.

The ranks die with the parent (PR_SET_PDEATHSIG); their files in /dev/shm stay, and a SIGKILL leaves nobody else to
remove them. The keeper is told what the ranks hold, and acts only when its input ends without a word.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from checks import child
from checks.nccl import segments

DEATH_S = 3.0


class Keeper:
    """The parent's side. ``before`` are the files that were there already, which are never ours."""

    def __init__(self, before: set[str]) -> None:
        self._process = child.start(child.self_command("_probe", "nccl-keeper"))
        self._told: dict[str, Any] = {}
        self._before = sorted(before)

    def know(self, pids: Iterable[int], held: set[str]) -> None:
        """Tells which processes are ours and what they hold, when that is news."""
        now = {"pids": sorted(pids), "held": sorted(held), "before": self._before}
        if now != self._told:
            self._told = now
            self._say(now)

    def close(self) -> None:
        """All is cleaned up: the keeper has nothing to do."""
        self._say({"done": True})
        child.abandon(self._process, grace=0.0)

    def _say(self, line: dict[str, Any]) -> None:
        with suppress(OSError):
            os.write(self._process.stdin.fileno(), (json.dumps(line) + "\n").encode())  # type: ignore[union-attr]


def main() -> int:
    """Waits for the end of its input; 0 always."""
    told: dict[str, Any] = {}
    for line in sys.stdin:
        with suppress(ValueError):
            told = json.loads(line)
    if told.get("held"):
        end = time.monotonic() + DEATH_S
        while any(map(_lives, told["pids"])) and time.monotonic() < end:
            time.sleep(0.02)
        segments.sweep(set(told["before"]), set(told["held"]))
    return 0


def _lives(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - starts at once
            return file.read().rpartition(")")[2].split()[0] not in ("Z", "X")
    except (OSError, IndexError):
        return False
