"""What ends a run from outside, by real signals: once, all three alike, never in the middle of what must not be cut."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest

_RUN = """
from gevent import monkey; monkey.patch_all()
import time
from provision.run import ending
from provision.run.commands import Answer, finish
from provision.run.errors import ActFailed
import sys
def say(text): print(text, flush=True)
def works():
    say("up")
    {body}
    return Answer(0, {{}})
sys.exit(finish(works, "test", True))
"""

_SLEEPS = "time.sleep(20)"
_HOLDS = """
    try:
        time.sleep(20)
    finally:
        say("back")
        with ending.held("the source comes first, 9 s at most", 9): time.sleep(1.5)
        say("whole")
        {then}
"""


def _start(body: str, ignored: tuple[int, ...] = ()) -> subprocess.Popen[str]:
    def dispositions() -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN if number in ignored else signal.SIG_DFL)

    process = subprocess.Popen(
        [sys.executable, "-c", _RUN.format(body=body)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=dispositions,
    )
    _line(process, "up")
    return process


def _line(process: subprocess.Popen[str], wanted: str) -> None:
    assert process.stdout is not None
    while (line := process.stdout.readline()) != f"{wanted}\n":
        assert line, f"it ended before {wanted}"


def _ended(process: subprocess.Popen[str]) -> tuple[int, list[str], str]:
    assert process.stdout is not None
    assert process.stderr is not None
    # Not by communicate(), which has nothing of what was read ahead. All that runs here ends by itself.
    with process:
        out, said = process.stdout.read(), process.stderr.read()
    assert "Traceback" not in said
    return process.returncode, out.splitlines(), said


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_all_three_end_a_command_with_its_last_words_and_the_code_of_a_shell(number: int, code: int) -> None:
    process = _start(_SLEEPS)
    process.send_signal(number)
    exited, out, said = _ended(process)
    assert exited == code, said
    assert json.loads(out[-1]) == {
        "schema": "provision/1",
        "command": "test",
        "exit": code,
        "error": "interrupted",
    }
    assert "interrupted: a command that was under way was ended" in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_one_that_the_caller_had_ignored_stays_ignored(number: int) -> None:
    process = _start("time.sleep(1)", (number,))
    process.send_signal(number)
    assert _ended(process)[0] == 0


def test_what_is_pushed_while_it_is_held_is_said_once_and_counts_afterwards() -> None:
    process = _start(_HOLDS.format(then="time.sleep(20)"))
    process.send_signal(signal.SIGTERM)
    _line(process, "back")
    for number in (signal.SIGINT, signal.SIGINT, signal.SIGHUP):
        time.sleep(0.3)
        process.send_signal(number)
    began = time.monotonic()
    exited, out, said = _ended(process)
    assert exited == 143
    assert "whole" not in out, "it was raised at the end of what held it"
    assert said.count("is held back: the source comes first, 9 s at most") == 1
    assert 0.3 < time.monotonic() - began < 10


def test_one_that_comes_after_the_hold_ends_it_at_once() -> None:
    process = _start(_HOLDS.format(then="time.sleep(20)"))
    process.send_signal(signal.SIGINT)
    _line(process, "whole")
    time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    exited, _, said = _ended(process)
    assert exited == 130
    assert "held back" not in said


def test_what_holds_has_a_deadline_of_its_own() -> None:
    body = 'with ending.held("it comes first", 0.5): time.sleep(20)'
    exited, _, said = _ended(_start(body))
    assert exited == 1
    assert "it did not come to its end within 0.5 s" in said


def test_last_words_survive_another_push_on_the_way_out() -> None:
    body = """
    try:
        raise ending.Ended("the migration is open", state="open")
    finally:
        say("out")
        time.sleep(20)
    """
    process = _start(body)
    _line(process, "out")
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    exited, out, said = _ended(process)
    assert exited == 130
    assert said.splitlines()[-1] == "interrupted: the migration is open"
    assert json.loads(out[-1])["state"] == "open"


def test_a_second_command_of_one_process_hears_as_the_first_did() -> None:
    body = "finish(lambda: Answer(0, {}), 'first', False); time.sleep(20)"
    process = _start(body)
    process.send_signal(signal.SIGTERM)
    assert _ended(process)[0] == 143


def test_nobody_who_listens_any_more_is_no_reason_to_stop() -> None:
    body = (
        "import os; os.close(2); from provision.printable import say_on_stderr; say_on_stderr('x'); say('on')"
    )
    exited, out, _ = _ended(_start(body))
    assert (exited, out[0]) == (0, "on")
