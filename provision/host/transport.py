"""Bytes to and from a host, metal or guest: the only place that knows how a connector moves them.

pyinfra's connectors read whole files into memory, end every line of standard input with a newline and take
all output for UTF-8. Here output is bytes, files are streamed in chunks, and a file is put in one step or
not at all.

Every function takes a connected pyinfra host. A command goes to ``sh`` on that host; a guest's goes through
its machine (``Relay``).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from typing import BinaryIO

from pyinfra.api.host import Host

from provision.host._held import Held, hold
from provision.host._pipes import AFTER_EXIT_SECONDS, CHUNK, ConnectionLost, Process, Sink, join_all
from provision.host._put import put_atomic_script, remaining
from provision.host._wire import (
    CommandTimeout,
    Completed,
    Passage,
    Relay,
    TransportError,
    count,
    remote_commands,
    start,
    watch,
)

__all__ = [
    "CHUNK",
    "CommandTimeout",
    "Completed",
    "Ended",
    "Held",
    "Passage",
    "Relay",
    "TransportError",
    "count",
    "execute",
    "fetch",
    "hold",
    "put",
    "put_atomic_script",
    "remaining",
    "remote_commands",
    "run",
    "stream",
    "watch",
]


def run(host: Host, command: str, *, stdin: bytes | None = None, timeout: float | None = None) -> Completed:
    """Run a shell command; its output byte for byte.

    Raises CommandTimeout after ``timeout`` seconds, TransportError when the connection broke or there is
    none.
    """
    return stream(host, command, BytesIO(stdin or b""), timeout=timeout)


def stream(
    host: Host,
    command: str,
    source: BinaryIO,
    *,
    progress: Callable[[int], object] | None = None,
    timeout: float | None = None,
) -> Completed:
    """Run a shell command with ``source`` as its standard input, chunk by chunk.

    ``progress`` is called with the bytes sent so far. A command that stops reading is no error: its exit
    status tells. When reading ``source`` fails, the command is stopped and the error raised.
    """
    stdout, stderr = bytearray(), bytearray()
    return execute(
        host, command, source, stdout.extend, stderr.extend, progress=progress, timeout=timeout
    ).finish(stdout, stderr)


def fetch(host: Host, command: str, sink: BinaryIO, *, timeout: float | None = None) -> Completed:
    """Run a shell command and write its standard output to ``sink``, chunk by chunk (``stdout`` stays empty).

    Look at the exit status before using what arrived. When writing to ``sink`` fails, the command is stopped
    and the error raised; TransportError when the end of the output did not come.
    """
    stderr = bytearray()
    done = execute(host, command, BytesIO(), sink.write, stderr.extend, timeout=timeout).finish(b"", stderr)
    if not done.whole:
        raise TransportError(f"{host}: a command ended, but the end of its output did not come: not used")
    return done


@dataclass(frozen=True)
class Ended:
    """A command that ended, before a relay had a look at what it said."""

    rc: int
    whole: bool
    judge: Callable[[Completed], Completed]

    def finish(self, stdout: bytes | bytearray, stderr: bytes | bytearray) -> Completed:
        """Raises what the relay raises when the command never ran inside."""
        return self.judge(Completed(self.rc, bytes(stdout), bytes(stderr), self.whole))


class _Flow:
    """Output on its way to the caller's sinks, which may be slow, and may fail."""

    def __init__(self) -> None:
        self.trouble: list[BaseException] = []
        self.stop: Callable[[], None] = lambda: None
        self._inside = 0
        self._last = time.monotonic()

    def into(self, sink: Sink) -> Sink:
        def write(data: bytes) -> None:
            if self.trouble:
                return
            self._inside += 1
            try:
                sink(data)
            except BaseException as error:  # noqa: BLE001 - raised again where the caller is
                self.fail(error)
            finally:
                self._inside -= 1
                self._last = time.monotonic()

        return write

    def fail(self, error: BaseException) -> None:
        self.trouble.append(error)
        self.stop()

    def settle(self, process: Process, until: float | None) -> bool:
        """Wait for the last output of a command that ended; False when it stays open and nothing comes."""
        self._last = time.monotonic()
        while not join_all(process.readers, 0.1):
            now = time.monotonic()
            quiet = not self._inside and now - self._last > AFTER_EXIT_SECONDS
            if quiet or (until is not None and now > until):
                return False
        return True


def execute(
    host: Host,
    command: str,
    source: BinaryIO,
    stdout: Sink,
    stderr: Sink,
    *,
    progress: Callable[[int], object] | None = None,
    timeout: float | None = None,
    lasting: bool = False,
) -> Ended:
    """The engine of the functions above, for a caller that wants the output while it comes.

    A ``lasting`` command goes on to its end when the controller is interrupted; it must bear that nobody listens.
    """
    until = None if timeout is None else time.monotonic() + timeout
    flow = _Flow()

    def feed() -> None:
        sent = 0
        try:
            while data := source.read(CHUNK):
                if not process.write(data):
                    return
                sent += len(data)
                if progress:
                    progress(sent)
        except BaseException as error:  # noqa: BLE001 - raised again where the caller is
            flow.fail(error)
        else:
            process.close_stdin()

    passage, process = start(host, command, flow.into(stdout), flow.into(stderr), lasting=lasting)
    flow.stop = process.stop
    rc: int | None = None
    whole = False
    try:
        process.spawn(feed)
        rc = process.wait(timeout)
        whole = rc is not None and flow.settle(process, until)
    except ConnectionLost as error:
        if not flow.trouble:
            raise TransportError(
                f"{error} while a command ran on {passage.host}: it may still run there; "
                "look before running it again"
            ) from error
    finally:
        process.stop()
    if flow.trouble:
        raise flow.trouble[0]
    if rc is None:
        raise CommandTimeout(f"a command on {host} did not end within {timeout:g} s and was given up")
    return Ended(rc, whole, passage.judge)


def put(
    host: Host,
    source: BinaryIO,
    path: str,
    *,
    mode: str | None = None,
    owner: str | None = None,
    progress: Callable[[int], object] | None = None,
    timeout: float | None = None,
) -> None:
    """Write a file on a host in one step: afterwards it is the new one, whole and on disk, or the old one.

    ``source`` must be seekable. Raises TransportError when it was not written.
    """
    script = put_atomic_script(path, mode, owner, size=remaining(source))
    done = stream(host, script, source, progress=progress, timeout=timeout)
    if not done.ok:
        raise TransportError(f"{host}: {path} was not written: {done.error_text or f'exit {done.rc}'}")
