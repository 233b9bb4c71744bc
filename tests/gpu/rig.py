"""A ``provcheck nccl`` that runs while a test looks at its ranks: their processes, environment and memory."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

RECORDS = Path(os.environ.get("REC") or os.environ.get("TMPDIR") or "/tmp")
ENGINE = os.environ.get("ENGINE") or sys.prefix


@dataclass
class Said:
    """The end of a command: exit code, report, seconds."""

    code: int
    report: dict[str, Any]
    seconds: float

    def of(self, identity: str) -> list[dict[str, Any]]:
        return [finding for finding in self.report["findings"] if finding["id"] == identity]

    def one(self, identity: str) -> dict[str, Any]:
        found = self.of(identity)
        assert len(found) == 1, (identity, found or self.report["findings"])
        return found[0]


@dataclass
class Running:
    """A command under way. ``environ`` has what each of its probes was started with, as it was first seen."""

    process: subprocess.Popen[str]
    out: IO[str]
    err: IO[str]
    tag: str
    began: float
    environ: dict[int, dict[str, str]] = field(default_factory=dict)

    def look(self) -> list[int]:
        """The living ranks, the first one started first."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                line = (folder / "cmdline").read_bytes()
                if b"_probe" not in line:
                    continue
                raw = (folder / "environ").read_bytes()
            except OSError:
                continue
            told = dict(w.decode(errors="replace").partition("=")[::2] for w in raw.split(b"\0") if w)
            if told.get("KPRO_SESSION_TAG") != self.tag:
                continue
            self.environ.setdefault(int(folder.name), told)
            if b"nccl-rank" in line:
                found.append(int(folder.name))
        return sorted(found)

    def end(self, seconds: float = 150) -> Said:
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        took = time.monotonic() - self.began
        self.out.seek(0)
        self.err.seek(0)
        out, err = self.out.read(), self.err.read()
        try:
            report = json.loads(out)
        except ValueError:
            raise AssertionError(
                f"no report (exit {self.process.returncode}): {out[-300:]} {err[-600:]}"
            ) from None
        return Said(self.process.returncode, report, took)


def start(
    *arguments: str, record: str | None = None, before: tuple[str, ...] = (), **variables: str
) -> Running:
    """``provcheck ARGUMENTS --json``; its record is kept as RECORDS/NAME.record.json, its report as NAME.json."""
    tag = uuid.uuid4().hex
    kept = ["--record", str(RECORDS / f"{record}.record.json")] if record else []
    program = shutil.which("provcheck")
    argv = [program] if program else [sys.executable, "-m", "checks"]
    out = TemporaryFile("w+")  # noqa: SIM115 - read at the end, by Running.end
    err = TemporaryFile("w+")  # noqa: SIM115
    process = subprocess.Popen(
        [*before, *argv, *arguments, *kept, "--json"],
        env={**os.environ, **variables, "KPRO_SESSION_TAG": tag},
        stdout=out,
        stderr=err,
        text=True,
    )
    return Running(process, out, err, tag, time.monotonic())


def run(*arguments: str, record: str | None = None, seconds: float = 150, **variables: str) -> Said:
    said = start(*arguments, record=record, **variables).end(seconds)
    if record:
        (RECORDS / f"{record}.json").write_text(json.dumps(said.report))
    return said


def in_flight(running: Running, held: int, seconds: float = 60) -> list[int]:
    """The ranks once each GPU holds that many bytes more: their buffers are there, so the collectives have begun."""
    import pynvml

    pynvml.nvmlInit()
    handles = [pynvml.nvmlDeviceGetHandleByIndex(n) for n in range(pynvml.nvmlDeviceGetCount())]
    before = [_used(pynvml, handle) for handle in handles]
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        ranks = running.look()
        grown = [_used(pynvml, handle) - was for handle, was in zip(handles, before, strict=True)]
        if len(ranks) == len(handles) and min(grown) >= held:
            return ranks
        assert running.process.poll() is None, running.end(5).report
        time.sleep(0.01)
    raise AssertionError(f"the ranks did not come to their collectives in {seconds} s: {running.look()}")


def idle(seconds: float = 20) -> None:
    """The GPUs once nobody has memory on them: what was killed may take a moment to go."""
    import pynvml

    pynvml.nvmlInit()
    handles = [pynvml.nvmlDeviceGetHandleByIndex(n) for n in range(pynvml.nvmlDeviceGetCount())]
    end = time.monotonic() + seconds
    while any(pynvml.nvmlDeviceGetComputeRunningProcesses(handle) for handle in handles):
        assert time.monotonic() < end, "a GPU is still in use"
        time.sleep(0.05)


def _used(pynvml: Any, handle: Any) -> int:
    return int(pynvml.nvmlDeviceGetMemoryInfo(handle).used)


def watched(running: Running, seconds: float = 150) -> Said:
    """Looks at its probes until it ends."""
    end = time.monotonic() + seconds
    while running.process.poll() is None and time.monotonic() < end:
        running.look()
        time.sleep(0.02)
    return running.end(max(0.1, end - time.monotonic()))
