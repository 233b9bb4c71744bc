"""``provcheck nccl`` as a program on the doubles of libcuda, libnccl, libcudart and libnvidia-ml."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.build import library


@dataclass(frozen=True)
class Said:
    """The end of one run: exit code, findings by id, how long it took, what else it printed."""

    code: int
    report: dict[str, Any]
    seconds: float
    stderr: str

    def of(self, identity: str) -> dict[str, Any]:
        found = [finding for finding in self.report["findings"] if finding["id"] == identity]
        assert len(found) == 1, found
        return found[0]

    def status(self, identity: str) -> str:
        return str(self.of(identity)["status"])

    @property
    def bad(self) -> set[str]:
        return {finding["id"] for finding in self.report["findings"] if finding["status"] == "fail"}


@dataclass(frozen=True)
class Rig:
    """The folders of the doubles, and an environment in which only they are found."""

    root: Path
    scratch: Path
    nccl: Path
    folders: tuple[Path, ...]

    def environment(self, **variables: str) -> dict[str, str]:
        own = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("NCCL", "CUDA", "SLURM"))
        }
        own |= {
            "PYTHONPATH": str(self.root),
            "TMPDIR": str(self.scratch),
            "KPRO_DOUBLE_TAG": tag(self.scratch),
        }
        return {**own, "LD_LIBRARY_PATH": ":".join(map(str, self.folders)), **variables}

    def argv(self, *args: str) -> list[str]:
        named = () if "--replay" in args else ("--library", str(self.nccl / "libnccl.so.2"))
        return [sys.executable, "-m", "checks", "nccl", *named, "--json", *args]

    def run(self, *args: str, **variables: str) -> Said:
        began = time.monotonic()
        done = subprocess.run(
            self.argv(*args), env=self.environment(**variables), capture_output=True, text=True, timeout=100
        )
        seconds = time.monotonic() - began
        report = json.loads(done.stdout) if done.stdout else {"findings": []}
        return Said(done.returncode, report, seconds, done.stderr)


@pytest.fixture(scope="session")
def doubles() -> tuple[Path, ...]:
    return tuple(library(name) for name in ("nccl", "cuda", "cudart", "nvml"))


def probes(scratch: Path) -> list[int]:
    """Living processes of a rig: those that have its scratch folder in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
            if state != "Z" and f"TMPDIR={scratch}".encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


@pytest.fixture
def rig(repo_root: Path, tmp_path: Path, doubles: tuple[Path, ...]) -> Iterator[Rig]:
    """Whatever a test does, no process of its own is left, and no shared memory that it made."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    yield Rig(repo_root, scratch, doubles[0], doubles[1:])
    end = time.monotonic() + 3
    while probes(scratch) and time.monotonic() < end:
        time.sleep(0.05)
    assert probes(scratch) == [], "a child outlived its run"
    assert list(scratch.glob("provcheck-nccl-*")) == []
    assert rig_segments(scratch) == [], "shared memory outlived its run"


def rig_segments(scratch: Path) -> list[str]:
    """NCCL's files in /dev/shm that the doubles of this rig made."""
    return [entry.name for entry in os.scandir("/dev/shm") if entry.name.startswith(f"nccl-{tag(scratch)}-")]


def tag(scratch: Path) -> str:
    return hashlib.sha256(str(scratch).encode()).hexdigest()[:16]
