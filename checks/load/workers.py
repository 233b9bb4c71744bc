"""Children that report line by line and wait to be told; several at once, each with a deadline per step."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

_LINE_LIMIT = 1 << 20


class Worker:
    """One child. ``step`` runs since ``since``; ``waiting`` names the step it wants to be told to do."""

    def __init__(
        self, argv: Sequence[str], environ: Mapping[str, str], allowed: Callable[[str], float]
    ) -> None:
        self.steps: dict[str, Any] = {}
        self.ended: dict[str, Any] | None = None
        self.step, self.since, self.waiting, self.doing = "start", time.monotonic(), "", ""
        self._allowed = allowed
        self._buffer = bytearray()
        self._process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(environ),
            start_new_session=True,
        )

    @property
    def running(self) -> bool:
        return self.ended is None

    def fileno(self) -> int:
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def left(self) -> float:
        """Seconds until the step counts as hanging; nobody hurries a child that waits."""
        return 3600.0 if self.waiting else self._allowed(self.step) - (time.monotonic() - self.since)

    def tell(self) -> None:
        """Lets the child do the step it waits for."""
        assert self._process.stdin is not None
        self.step, self.since, self.waiting = self.waiting, time.monotonic(), ""
        with suppress(BrokenPipeError):
            self._process.stdin.write(b"go\n")
            self._process.stdin.flush()

    def hear(self) -> None:
        """Reads what is there; call it when the child's output is readable."""
        data = os.read(self.fileno(), 1 << 16)
        self._buffer += data
        *lines, rest = self._buffer.split(b"\n")
        self._buffer = bytearray(rest[-_LINE_LIMIT:])
        for line in lines:
            with suppress(ValueError):
                self._take(json.loads(line))
        if not data and self.ended is None:
            self._died()
        if self.ended is not None:
            self.abandon()

    def _take(self, line: dict[str, Any]) -> None:
        if "begin" in line:
            self.step, self.since, self.doing = line["begin"], time.monotonic(), ""
        elif "doing" in line:
            self.doing = line["doing"]
        elif "step" in line:
            self.steps[line["step"]] = line["values"]
        elif "wait" in line:
            self.waiting = line["wait"]
        elif "failed" in line:
            self.ended = line["failed"]
        elif line.get("end"):
            self.ended = {}

    def _died(self) -> None:
        assert self._process.stderr is not None
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=1.0)
        code = self._process.returncode
        text = f"the child ended with {code}"
        if code is not None and code < 0:
            with suppress(ValueError):
                text = f"the child was ended by {signal.Signals(-code).name}"
        os.set_blocking(self._process.stderr.fileno(), False)
        said = (self._process.stderr.read() or b"").decode(errors="replace").strip().splitlines()
        self.ended = {
            "step": self.step,
            "kind": "died",
            "doing": self.doing,
            "text": ": ".join([text, *said[-1:]])[:500],
        }

    def late(self) -> None:
        """Gives the child up when its step hangs."""
        if self.running and self.left() <= 0:
            seconds = time.monotonic() - self.since
            text = f"no answer within {seconds:.0f} s"
            self.ended = {"step": self.step, "kind": "hang", "doing": self.doing, "text": text}
            self.abandon()

    def abandon(self) -> None:
        """Kills what still runs and does not wait: a child inside the driver may not be able to die."""
        if self._process.poll() is None and self.ended == {}:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=5.0)  # it has said everything, and gives its context back
        if self._process.poll() is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=0.2)
        if self._process.returncode is None:
            self._process.returncode = -signal.SIGKILL  # Popen would warn about a child nobody can wait for
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                with suppress(OSError):
                    stream.close()


def attend(workers: Sequence[Worker], until: Callable[[Worker], bool]) -> None:
    """Hears all children until each has reached ``until`` or has ended."""
    while waited := [worker for worker in workers if worker.running and not until(worker)]:
        heard = [worker for worker in workers if worker.running]
        readable, _, _ = select.select(heard, [], [], max(0.0, min(worker.left() for worker in waited)))
        for worker in readable:
            worker.hear()
        for worker in waited:
            worker.late()
