"""A command that is told to end does so, wherever in Python the signal finds it; nothing of it stays behind."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from checks import ending

COMMAND = """
import os, signal, sys, time, click
from checks import cli

class Held:
    def __del__(self):
        os.kill(os.getpid(), {number})
        time.sleep({there})  # the signal is taken here, or in the command

@click.command()
def held():
    {before}
    Held()
    try:
        time.sleep(20)
    finally:
        print("cleaned up", flush=True)

sys.modules["held"] = sys.modules["__main__"]
cli.COMMANDS["held"] = cli.Row("held:held", "")
sys.exit(cli.main(["held"]))
"""


def ended(repo_root: Path, number: int, there: float, before: str = "") -> subprocess.CompletedProcess[str]:
    code = COMMAND.format(number=int(number), there=there, before=before)
    argv = ["env", "--default-signal", sys.executable, "-c", code]
    return subprocess.run(
        argv, env={"PYTHONPATH": str(repo_root)}, capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_that_comes_while_an_object_is_finalized_still_ends_the_command(
    repo_root: Path, number: int
) -> None:
    said = ended(repo_root, number, 0.01)
    assert said.returncode == 128 + number
    assert said.stdout == "cleaned up\n"
    assert said.stderr.strip() == "provcheck: interrupted, no verdict"


def test_any_other_error_of_a_finalizer_is_told_as_ever(repo_root: Path) -> None:
    said = ended(repo_root, 0, 0.01, "time.sleep = lambda s: 1 / 0 if s < 1 else None")
    assert said.returncode == 0
    assert "ZeroDivisionError" in said.stderr


def test_afterwards_signals_are_taken_as_before() -> None:
    numbers = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGALRM)
    before = [signal.getsignal(number) for number in numbers], sys.unraisablehook
    with ending.in_order(ending.Told()):
        assert sys.unraisablehook is not before[1]
    assert ([signal.getsignal(number) for number in numbers], sys.unraisablehook) == before


def test_an_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with ending.in_order(ending.Told()):
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
