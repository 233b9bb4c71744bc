"""The question before a change, on a real terminal: what is yes, what is no, what ends it."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import signal
import sys
import time

import pytest

_ASK = """
from gevent import monkey; monkey.patch_all()
from provision.run.asking import yes
from provision.run.commands import Answer, finish
import sys
sys.exit(finish(lambda: Answer(0 if yes("do it?") else 2, {}), "apply", False))
"""


def _answered(keys: bytes, sent: int = 0) -> tuple[int, str]:
    """The exit code of a question in a terminal of its own, after these keys or this signal, and what it said."""
    pid, terminal = pty.fork()
    if pid == 0:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        os.execv(sys.executable, [sys.executable, "-c", _ASK])
    seen, until = b"", time.monotonic() + 60
    while b"[y/N]" not in seen and time.monotonic() < until:
        seen += os.read(terminal, 1024)
    time.sleep(0.3)
    if sent:
        os.kill(pid, sent)
    os.write(terminal, keys)
    until = time.monotonic() + 30
    with contextlib.suppress(OSError):
        while select.select([terminal], [], [], max(0, until - time.monotonic()))[0]:
            seen += os.read(terminal, 1024)
    if time.monotonic() >= until:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    return os.waitstatus_to_exitcode(status), seen.decode()


@pytest.mark.parametrize(
    ("keys", "code"),
    [
        (b"y\n", 0),
        (b"YES\n", 0),
        (b"\n", 2),
        (b"n\n", 2),
        (b"maybe\ny\n", 0),
        (b"yep\nn\n", 2),
        (b"\x04", 2),
        (b"\x03", 130),
    ],
)
def test_an_interrupt_ends_the_question_and_only_yes_is_yes(keys: bytes, code: int) -> None:
    exited, said = _answered(keys)
    assert exited == code, said
    asked_again = keys[:1] in (b"m", b"y") and len(keys.split()) > 1
    assert said.count("[y/N]") == (2 if asked_again else 1)


@pytest.mark.parametrize(
    ("keys", "sent", "code"),
    [(b"\x03", 0, 130), (b"", signal.SIGTERM, 143), (b"", signal.SIGHUP, 129)],
)
def test_a_question_that_is_interrupted_says_on_a_line_of_its_own_that_nothing_was_changed(
    keys: bytes, sent: int, code: int
) -> None:
    exited, said = _answered(keys, sent)
    assert exited == code, said
    lines = said.splitlines()
    assert lines[-1] == "interrupted: nothing was changed"
    assert lines[-2].removesuffix("^C").endswith("[y/N]: ")
