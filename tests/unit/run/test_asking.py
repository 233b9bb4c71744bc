"""The question before a change, on a real terminal: what is yes, what is no, what ends it."""

from __future__ import annotations

import os
import pty
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


def _answered(keys: bytes) -> int:
    """The exit code of a question in a terminal of its own, after these keys."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-c", _ASK])
    seen, until = b"", time.monotonic() + 60
    while b"[y/N]" not in seen and time.monotonic() < until:
        seen += os.read(terminal, 1024)
    time.sleep(0.3)
    os.write(terminal, keys)
    try:
        while os.read(terminal, 1024):
            pass
    except OSError:
        pass
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    return os.waitstatus_to_exitcode(status)


@pytest.mark.parametrize(
    ("keys", "code"),
    [(b"y\n", 0), (b"YES\n", 0), (b"\n", 2), (b"n\n", 2), (b"yep\n", 2), (b"\x04", 2), (b"\x03", 130)],
)
def test_an_interrupt_ends_the_question_and_only_yes_is_yes(keys: bytes, code: int) -> None:
    assert _answered(keys) == code
