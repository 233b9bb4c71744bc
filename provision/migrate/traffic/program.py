"""Programs of the controller with a deadline: one that hangs is ended with everything that it started."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from provision.host.transport import CommandTimeout, Completed, TransportError

MOST = 1 << 20
"""Bytes kept of each of a program's outputs: the last ones."""

_MARK = "KPRO_PROGRAM"
"""Variable by which children are found that left the program's session."""

_GRACE_S = 2.0


def run(
    argv: Sequence[str],
    *,
    stdin: bytes = b"",
    timeout: float,
    variables: Mapping[str, str] | None = None,
) -> Completed:
    """Raises TransportError for a program that cannot be started, CommandTimeout for one that was ended, with its last
    words on both outputs."""
    mark = uuid.uuid4().hex
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write(stdin)
        given.seek(0)
        process = None
        try:
            process = subprocess.Popen(
                argv,
                stdin=given,
                stdout=out,
                stderr=err,
                env={**os.environ, **(variables or {}), _MARK: mark},
                start_new_session=True,
            )
            code = process.wait(timeout)
        except subprocess.TimeoutExpired as error:
            _end(process, mark)
            last = _last(out, 4096) + _last(err, 4096)
            raise Hung(argv[0], timeout, last.decode("utf-8", "backslashreplace")) from error
        except OSError as error:
            raise TransportError(f"{argv[0]} cannot be started: {error.strerror}") from error
        except BaseException:
            # Also one that was started and not yet known here.
            _end(process, mark)
            raise
        return Completed(code if code >= 0 else 128 - code, _last(out, MOST), _last(err, MOST))


class Hung(CommandTimeout):
    """``said``: the last of what it printed, as it was."""

    def __init__(self, program: str, seconds: float, said: str) -> None:
        self.said = said
        super().__init__(
            f"{program} did not end within {seconds:g} s and was ended with all that it had started"
        )


def _last(file: IO[bytes], most: int) -> bytes:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - most))
    return file.read()


def _end(process: subprocess.Popen[bytes] | None, mark: str) -> None:
    """Each of them has its time between the two signals, and none is left when this ends."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        if process is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, sign)
        for pid in _marked(mark):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, sign)
        until = time.monotonic() + _GRACE_S
        while (process is not None and process.poll() is None) or _marked(mark):
            if time.monotonic() > until:
                break
            time.sleep(0.02)


def _marked(mark: str) -> list[int]:
    """Processes that inherited the variable; none where there is no /proc."""
    word, found = f"{_MARK}={mark}".encode(), []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if word in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return found
