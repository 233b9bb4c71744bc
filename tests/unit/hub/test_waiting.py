"""Who waits for a fetch that outlived its controller is told how it gets on, and waits as long as it does."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from provision.host.transport import Completed
from provision.run import lock


class Host:
    name = "@local"


def waits(
    monkeypatch: pytest.MonkeyPatch, answers: list[tuple[int, str]], step: float = 15
) -> tuple[bool, list[str]]:
    now, lines = [0.0], []

    def run(host: Any, command: str) -> Completed:
        now[0] += step
        rc, text = answers.pop(0)
        return Completed(rc, text.encode(), b"", True)

    monkeypatch.setattr(lock.transport, "run", run)
    monkeypatch.setattr(lock.time, "monotonic", lambda: now[0])
    return lock._ends(Host(), lines.append), lines


def test_each_line_of_progress_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ended, lines = waits(
        monkeypatch, [(75, "m: 10 %\n"), (75, "m: 10 %\n"), (75, ""), (75, "m: 20 %\n"), (0, "")]
    )
    assert ended
    assert lines == ["@local: m: 10 %", "@local: m: 20 %"]


def test_what_gets_on_is_waited_for_however_long(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [(75, f"m: {n} %\n") for n in range(50)]
    assert waits(monkeypatch, [*answers, (0, "")], step=1000)[0]


def test_what_does_not_get_on_is_given_up_after_its_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not waits(monkeypatch, [(75, "m: 10 %\n")] * 9, step=1000)[0]
    assert not waits(monkeypatch, [(75, "")] * 9, step=1000)[0]
    assert not waits(monkeypatch, [(1, "")])[0]


def test_the_command_ends_as_the_waiting_reads_it(tmp_path: Path) -> None:
    command = lock._WAIT.replace(lock.FOLDER, str(tmp_path)).replace(f"-w {lock.LOOK_SECONDS}", "-w 0")

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)

    assert run().returncode == 0
    held = os.open(tmp_path / "busy", os.O_RDWR)
    import fcntl

    fcntl.flock(held, fcntl.LOCK_SH)
    assert (run().returncode, run().stdout) == (75, "")
    (tmp_path / "progress").write_text("m: 10 %\n")
    assert (run().returncode, run().stdout) == (75, "m: 10 %\n")
    os.close(held)
