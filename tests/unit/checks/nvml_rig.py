"""Drives the real ``provcheck gpus`` against the double of libnvidia-ml: program, child, binding and library."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.doubles.build import library

MARK = "KPRO_TEST_MARK"


@dataclass(frozen=True)
class Live:
    """One run: exit code, report, seconds, and what was recorded."""

    code: int
    report: dict[str, Any]
    seconds: float
    nvml: dict[str, Any]

    def finding(self, identity: str, subject: str = "host") -> dict[str, Any]:
        found = [f for f in self.report["findings"] if (f["id"], f["subject"]) == (identity, subject)]
        assert len(found) == 1, f"{identity} of {subject}: {found}"
        return dict(found[0])

    def status(self, identity: str, subject: str = "host") -> str:
        return str(self.finding(identity, subject)["status"])

    def statuses(self, identity: str) -> list[str]:
        return [f["status"] for f in self.report["findings"] if f["id"] == identity]


def environment(faults: str, hidden: tuple[str, ...] = (), folder: Path | None = None) -> dict[str, str]:
    """That of a program that finds the double, with these faults."""
    place = folder or library("nvml", hidden=hidden)
    return {**os.environ, "LD_LIBRARY_PATH": str(place), "KPRO_DOUBLE_NVML": faults, MARK: uuid.uuid4().hex}


def command(*args: object) -> list[str]:
    return [sys.executable, "-m", "checks", "gpus", *map(str, args)]


def run(tmp: Path, env: dict[str, str], *args: object) -> Live:
    """Runs it to its end and sees that no process of it is left."""
    record = tmp / f"{env[MARK]}.json"
    start = time.monotonic()
    done = subprocess.run(
        command("--json", "--record", record, *args), env=env, capture_output=True, text=True, timeout=120
    )
    seconds = time.monotonic() - start
    assert "Traceback" not in done.stderr, done.stderr
    assert_gone(env[MARK])
    return Live(done.returncode, json.loads(done.stdout), seconds, json.loads(record.read_text())["nvml"])


def assert_gone(mark: str) -> None:
    """No process that carries the mark is alive any more."""
    wait(lambda: not marked(mark), f"processes left: {marked(mark)}")


def wait(until: Callable[[], bool], what: str, seconds: float = 5.0) -> None:
    end = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def marked(mark: str) -> list[int]:
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
            if state != "Z" and f"{MARK}={mark}".encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def threads(mark: str) -> int:
    """Of the marked process that has the most."""
    return max((len(list(Path(f"/proc/{pid}/task").iterdir())) for pid in marked(mark)), default=0)
