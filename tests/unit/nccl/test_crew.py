"""The parent's view of its ranks when a deadline passes."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator

import pytest

from checks.nccl import crew
from checks.nccl.crew import Deadlines, Member, Order
from checks.nccl.measured import STOPPED


@pytest.fixture
def two() -> Iterator[list[subprocess.Popen[bytes]]]:
    running = [subprocess.Popen(["sleep", "60"]) for _ in range(2)]
    yield running
    for process in running:
        process.kill()
        process.wait()


def test_the_one_that_was_stopped_is_late_with_the_first_that_waits_for_it(
    two: list[subprocess.Popen[bytes]],
) -> None:
    os.kill(two[1].pid, signal.SIGSTOP)
    while crew.state(two[1].pid) != "T":
        time.sleep(0.01)
    order = Order("", (0, 1), (8,), 1, {}, 2, deadlines=Deadlines(size=5))
    team = crew._Crew(order, None, None)  # type: ignore[arg-type]
    now = time.monotonic()
    for rank, since in enumerate((now - 6, now - 1)):
        team.members.append(Member(rank, rank, two[rank], -1, phase="bench 8", since=since))
    assert team._late(now)
    assert [(member.ended, member.state in STOPPED) for member in team.members] == [
        ("deadline", False),
        ("deadline", True),
    ]


def test_while_nobody_is_late_nobody_is_looked_at(two: list[subprocess.Popen[bytes]]) -> None:
    os.kill(two[1].pid, signal.SIGSTOP)
    team = crew._Crew(Order("", (0, 1), (8,), 1, {}, 2), None, None)  # type: ignore[arg-type]
    now = time.monotonic()
    team.members += [Member(n, n, two[n], -1, phase="bench 8", since=now) for n in range(2)]
    assert not team._late(now)
    assert [(member.ended, member.state) for member in team.members] == [(None, None), (None, None)]


def test_a_process_that_is_gone_has_no_state(two: list[subprocess.Popen[bytes]]) -> None:
    two[0].kill()
    two[0].wait()
    assert crew.state(two[0].pid) is None
