"""A child process with a deadline. A child that hangs is abandoned, never waited for.

NVML can sleep uninterruptibly inside the driver (Xid 119, a dead GSP): SIGKILL then waits as long as the
driver does, so nothing here waits for the death of a child.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import checks

OUTPUT_LIMIT = 16 << 20
_BOOT = "import sys; sys.path.insert(0, {!r}); from checks.cli import main; raise SystemExit(main())"


Process = subprocess.Popen[bytes]


@dataclass(frozen=True)
class Ended:
    """What a child said. ``code`` is its exit code (negative: a signal), None when it was abandoned."""

    stdout: bytes
    stderr: str
    code: int | None
    timed_out: bool = False


def self_command(*args: str) -> list[str]:
    """The argv that runs provcheck again: the same single file, or the same checkout or wheel."""
    home = Path(checks.__file__).absolute().parent.parent
    if home.is_file():
        # All that it needs is inside: what an interpreter of some environment would import at its start is only late.
        return [sys.executable, "-S", str(home), *args]
    return [sys.executable, "-c", _BOOT.format(str(home)), *args]


def run(
    argv: Sequence[str],
    deadline: float,
    stdin: bytes = b"",
    *,
    detached: bool = True,
    grace: float = 0.0,
    env: Mapping[str, str] | None = None,
) -> Ended:
    """Runs ``argv`` for at most ``deadline`` seconds and returns what it printed until then.

    ``detached`` gives it a session of its own: it is killed with its children, and cannot ask on the
    terminal. A child with children in sessions of their own is given ``grace`` seconds after a SIGINT, to take them
    along. Output beyond 16 MiB ends the child as well. Raises OSError when it cannot be started.
    """
    end = time.monotonic() + deadline
    process = subprocess.Popen(
        argv,
        stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=detached,
        env=env,
    )
    try:
        out, err, cut = _pump(process, stdin, end)
        if cut:
            return Ended(out, _text(err), None, timed_out=True)
        process.wait(timeout=max(0.0, end - time.monotonic()))
        return Ended(out, _text(err), process.returncode)
    except subprocess.TimeoutExpired:
        return Ended(out, _text(err), None, timed_out=True)
    finally:
        abandon(process, detached=detached, grace=grace)


def start(
    argv: Sequence[str], env: Mapping[str, str] | None = None, keep: Sequence[int] = ()
) -> subprocess.Popen[bytes]:
    """One of several children that the caller feeds and reads itself, and gives to ``abandon`` at the end.

    It has a session of its own, pipes for stdin, stdout and stderr, and the open files ``keep`` under their numbers.
    Raises OSError when it cannot be started.
    """
    pipe = subprocess.PIPE
    return subprocess.Popen(
        argv,
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        env=env,
        start_new_session=True,
        bufsize=0,
        pass_fds=keep,
    )


def _pump(process: subprocess.Popen[bytes], stdin: bytes, end: float) -> tuple[bytes, bytes, bool]:
    """Feeds stdin and gathers stdout and stderr until both close (False) or the deadline passes (True)."""
    assert process.stdout is not None
    assert process.stderr is not None
    gathered: dict[int, bytearray] = {
        process.stdout.fileno(): bytearray(),
        process.stderr.fileno(): bytearray(),
    }
    out, err = gathered.values()
    waiting = set(gathered)
    rest = memoryview(stdin)
    sink = process.stdin.fileno() if process.stdin else None
    if sink is not None:
        os.set_blocking(sink, False)
    while waiting:
        left = end - time.monotonic()
        if left <= 0 or len(out) + len(err) > OUTPUT_LIMIT:
            return bytes(out), bytes(err), True
        readable, writable, _ = select.select(waiting, [] if sink is None else [sink], [], left)
        for fd in readable:
            data = os.read(fd, 1 << 16)
            gathered[fd] += data
            if not data:
                waiting.discard(fd)
        if writable and sink is not None:
            try:
                rest = rest[os.write(sink, rest[: 1 << 16]) :]
            except BrokenPipeError:
                rest = rest[:0]
            if not rest:
                assert process.stdin is not None
                process.stdin.close()
                sink = None
    return bytes(out), bytes(err), False


def code(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    """The exit code of a child that ends within ``seconds``, None while it runs."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=seconds)
    return process.returncode


def abandon(process: subprocess.Popen[bytes], *, detached: bool = True, grace: float = 0.0) -> None:
    """Kills a child (``detached``: its session) and closes its pipes; gives up on one that does not die."""
    if grace and process.poll() is None:
        with suppress(ProcessLookupError, PermissionError, subprocess.TimeoutExpired):
            process.send_signal(signal.SIGINT)
            process.wait(timeout=grace)
    if process.poll() is None:
        with suppress(ProcessLookupError, PermissionError):
            if detached:
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
        end = time.monotonic() + 0.2
        while process.poll() is None and time.monotonic() < end:
            time.sleep(0.01)
        if process.returncode is None:
            # Popen would warn at its end about a child that nobody can wait for.
            process.returncode = -signal.SIGKILL
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with suppress(OSError):
                stream.close()


def _text(data: bytes) -> str:
    return data.decode(errors="replace").strip()
