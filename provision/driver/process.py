"""Programs of a build: their output goes to one log, their failure is told with the last lines of it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

TICK_SECONDS = 15


class Failed(Exception):
    """The build did not succeed; the message is for the operator. ``code`` is the command's exit code."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Commands:
    """Runs programs one after the other. ``say`` is told what begins, and now and then that it goes on."""

    log: Path
    say: Callable[[str], None]

    def output(self, argv: Sequence[str]) -> str:
        """Standard output of a program that only looks. Raises Failed."""
        try:
            done = subprocess.run(
                argv, capture_output=True, check=False, env=_environment(), stdin=subprocess.DEVNULL
            )
        except FileNotFoundError as error:
            raise Failed(f"the program {argv[0]} is missing on this machine") from error
        if done.returncode:
            raise Failed(
                f"{argv[0]} ended with {done.returncode}: {done.stderr.decode(errors='replace').strip()[-300:]}"
            )
        return done.stdout.decode(errors="replace")

    def __call__(
        self,
        argv: Sequence[str],
        what: str,
        *,
        cwd: Path | None = None,
        stdin: IO[bytes] | None = None,
        quiet: bool = False,
    ) -> None:
        """Runs a program to its end; interrupted, it is ended with all that it started. Raises Failed."""
        with self.log.open("ab") as log:
            start = log.tell()
            try:
                process = subprocess.Popen(
                    argv,
                    cwd=cwd,
                    stdin=stdin or subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=_environment(),
                    start_new_session=True,
                )
            except FileNotFoundError as error:
                raise Failed(f"the program {argv[0]} is missing on this machine") from error
            try:
                code = self._wait(process, what, quiet)
            except BaseException:
                _end(process)
                raise
        if code:
            raise Failed(f"{what}: {Path(argv[0]).name} ended with {code}\n{self._tail(start)}")

    def _wait(self, process: subprocess.Popen[bytes], what: str, quiet: bool) -> int:
        started = time.monotonic()
        while True:
            try:
                return process.wait(TICK_SECONDS)
            except subprocess.TimeoutExpired:
                if not quiet:
                    self.say(f"{what}: still at it after {time.monotonic() - started:.0f} s")

    def _tail(self, start: int, lines: int = 8) -> str:
        with self.log.open("rb") as log:
            log.seek(start)
            text = log.read().decode(errors="replace")
        return "\n".join(f"    {line}" for line in text.strip().splitlines()[-lines:])


def _environment() -> dict[str, str]:
    return {**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends the program's whole session: gently first, because mmdebstrap undoes its mounts then."""
    for sign, seconds in ((signal.SIGTERM, 10), (signal.SIGKILL, 5)):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, sign)
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
            return
