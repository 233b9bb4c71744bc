"""A running shell command, seen as three streams: the same small face for a local process and for an SSH
channel.

A local process is driven by gevent and an SSH channel by ``threading``, each as pyinfra's own connector does
it, so both work with and without gevent's monkey patching. (A plain ``subprocess`` beside gevent would not:
gevent reaps every child, and the exit status reads as 0.)
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Protocol

import gevent
from gevent.subprocess import PIPE, Popen, TimeoutExpired
from paramiko import Channel, SSHClient, SSHException

CHUNK = 256 * 1024
"""Bytes moved at a time: the memory that a transfer of any size needs."""

AFTER_EXIT_SECONDS = 3.0
"""How long a silent output is still waited for after its command ended: something that the command left
running in the background may hold it open for ever."""

Sink = Callable[[bytes], object]


class Task(Protocol):
    """Work beside the caller: a greenlet or a thread."""

    def join(self, timeout: float | None = None) -> object: ...


class Process(Protocol):
    """A started command. Its output goes to the sinks it was started with, without anybody asking."""

    readers: list[Task]

    def write(self, data: bytes) -> bool:
        """Send to standard input; False once the command no longer reads."""

    def close_stdin(self) -> None: ...

    def wait(self, timeout: float | None) -> int | None:
        """The exit status, or None when ``timeout`` seconds passed. Raises ConnectionLost."""

    def stop(self) -> None:
        """Stop caring: end it where that is possible, let go of the streams."""

    def spawn(self, work: Callable[[], None]) -> Task: ...


class ConnectionLost(OSError):
    """The way to the command broke while it ran; whether it ended is not known."""


class LocalProcess:
    """``sh -c`` on this machine, in a session of its own: Ctrl-C here does not end it half way, exactly as
    with a command behind SSH."""

    def __init__(self, command: bytes, stdout: Sink, stderr: Sink) -> None:
        self._popen = Popen(
            [b"/bin/sh", b"-c", command],
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            bufsize=0,
            start_new_session=True,
        )
        self.readers: list[Task] = [
            self.spawn(lambda: _drain(self._popen.stdout.read, stdout)),
            self.spawn(lambda: _drain(self._popen.stderr.read, stderr)),
        ]

    def write(self, data: bytes) -> bool:
        view = memoryview(data)
        try:
            while view:
                view = view[self._popen.stdin.write(view) :]
        except (OSError, ValueError):
            return False
        return True

    def close_stdin(self) -> None:
        with contextlib.suppress(OSError):
            self._popen.stdin.close()

    def wait(self, timeout: float | None) -> int | None:
        try:
            status = int(self._popen.wait(timeout))
        except TimeoutExpired:
            return None
        return status if status >= 0 else 128 - status

    def stop(self) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self._popen.poll() is not None:
                break
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._popen.pid, number)
            with contextlib.suppress(TimeoutExpired):
                self._popen.wait(5)
        for reader in self.readers:
            reader.kill()  # type: ignore[attr-defined]
        for stream in (self._popen.stdin, self._popen.stdout, self._popen.stderr):
            with contextlib.suppress(OSError):
                stream.close()

    def spawn(self, work: Callable[[], None]) -> Task:
        return gevent.spawn(work)  # type: ignore[no-any-return]


class SSHProcess:
    """A command on a channel of the connector's own client."""

    def __init__(self, client: SSHClient | None, command: bytes, stdout: Sink, stderr: Sink) -> None:
        transport = client.get_transport() if client else None
        if transport is None or not transport.is_active():
            raise ConnectionLost("the SSH connection is gone")
        self._transport = transport
        try:
            self._channel: Channel = transport.open_session()
            self._channel.exec_command(command)
        except (SSHException, EOFError) as error:
            raise ConnectionLost(f"no command could be started over SSH: {error}") from error
        self.readers: list[Task] = [
            self.spawn(lambda: _drain(self._channel.recv, stdout)),
            self.spawn(lambda: _drain(self._channel.recv_stderr, stderr)),
        ]

    def write(self, data: bytes) -> bool:
        try:
            self._channel.sendall(data)
        except (OSError, SSHException):
            return False
        return True

    def close_stdin(self) -> None:
        with contextlib.suppress(OSError, SSHException):
            self._channel.shutdown_write()

    def wait(self, timeout: float | None) -> int | None:
        if not self._channel.status_event.wait(timeout):
            return None
        status = self._channel.recv_exit_status()
        if status == -1:
            # No status came: the command was ended by a signal, or the connection broke. Paramiko closes the
            # channels a moment before its transport thread ends.
            self._transport.join(1)
            if not self._transport.is_active():
                raise ConnectionLost("the SSH connection broke")
        return status

    def stop(self) -> None:
        with contextlib.suppress(OSError, SSHException, EOFError):
            self._channel.close()

    def spawn(self, work: Callable[[], None]) -> Task:
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        return thread


def _drain(read: Callable[[int], bytes | None], sink: Sink) -> None:
    while True:
        try:
            data = read(CHUNK)
        except (OSError, ValueError):
            return
        if not data:
            return
        sink(data)


def join_all(tasks: list[Task], seconds: float) -> bool:
    """Wait for the tasks together, at most ``seconds``; True when all ended."""
    until = time.monotonic() + seconds
    for task in tasks:
        task.join(max(0.0, until - time.monotonic()))
    return not any(_alive(task) for task in tasks)


def _alive(task: Task) -> bool:
    if isinstance(task, threading.Thread):
        return task.is_alive()
    return not task.ready()  # type: ignore[attr-defined]
