"""Drives the real ``provcheck load`` against the doubles of libcuda and libnvidia-ml, small and fast."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.doubles.build import library
from tests.unit.checks.nvml_rig import MARK, assert_gone

AT_WORK = "set:nvmlDeviceGetClockInfo:is=1700,set:nvmlDeviceGetCurrentClocksEventReasons:is=4"
SMALL = ("--seconds", 0.1, "--size", 1, "--memory", 4, "--deadline", 2)


@dataclass(frozen=True)
class Loaded:
    """One run: exit code, report, seconds it took, and the record it left."""

    code: int
    report: dict[str, Any]
    seconds: float
    record: Path

    def finding(self, identity: str, subject: str = "gpu0") -> dict[str, Any]:
        found = [f for f in self.report["findings"] if (f["id"], f["subject"]) == (identity, subject)]
        assert len(found) == 1, f"{identity} of {subject}: {found}"
        return dict(found[0])

    def status(self, identity: str, subject: str = "gpu0") -> str:
        return str(self.finding(identity, subject)["status"])

    def bad(self, subject: str) -> dict[str, str]:
        """What is not green of one GPU, by id."""
        findings = [f for f in self.report["findings"] if f["subject"] == subject]
        return {f["id"]: f["status"] for f in findings if f["status"] not in ("pass", "skip")}


def environment(
    cuda: str = "", nvml: str = "gpus=2", *, hidden: tuple[str, ...] = (), without: str = ""
) -> dict[str, str]:
    """That of a program that finds the doubles, with these faults; ``without`` names one that is not there."""
    places = [
        library(name, hidden=hidden if name == "cuda" else ()) for name in ("cuda", "nvml") if name != without
    ]
    return {
        **os.environ,
        "LD_LIBRARY_PATH": ":".join(map(str, places)),
        "KPRO_DOUBLE_CUDA": cuda,
        "KPRO_DOUBLE_NVML": f"{nvml},{AT_WORK}",
        MARK: uuid.uuid4().hex,
    }


def command(*args: object) -> list[str]:
    return [sys.executable, "-m", "checks", "load", *map(str, args)]


def load(tmp: Path, env: dict[str, str], *args: object) -> Loaded:
    """Runs it to its end and sees that no process of it is left."""
    record = tmp / f"{env[MARK]}.json"
    start = time.monotonic()
    argv = command("--json", "--record", record, *SMALL, *args)
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=120)
    seconds = time.monotonic() - start
    assert "Traceback" not in done.stderr, done.stderr
    assert_gone(env[MARK])
    return Loaded(done.returncode, json.loads(done.stdout), seconds, record)
