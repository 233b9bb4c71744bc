"""A command that is held: it lives as long as the controller holds it, and no longer."""

from __future__ import annotations

import time

from pyinfra.api.host import Host

from provision.host._pipes import AFTER_EXIT_SECONDS, ConnectionLost, Process, join_all
from provision.host._wire import CommandTimeout, Completed, Passage, TransportError, start


class Held:
    """A command that lives as long as this object is held, and no longer than the controller.

    ``first_line`` is what it said once it was ready; ``exited`` is set instead when it ended before that.
    """

    def __init__(self, process: Process, passage: Passage, stdout: bytearray, stderr: bytearray) -> None:
        self._process = process
        self._passage = passage
        self._stdout = stdout
        self._stderr = stderr
        self.first_line: bytes | None = None
        self.exited: Completed | None = None

    @property
    def alive(self) -> bool:
        """Does the command still run, and is the way to it still there?"""
        if self.exited is not None:
            return False
        try:
            return self._process.wait(0) is None
        except ConnectionLost:
            return False

    def release(self, timeout: float = 10.0) -> Completed:
        """Close its standard input and wait for its end. Raises TransportError when it does not end."""
        if self.exited is None:
            self._process.close_stdin()
            self.exited = self._end(timeout)
        return self.exited

    def _end(self, timeout: float) -> Completed:
        try:
            rc = self._process.wait(timeout)
        except ConnectionLost as error:
            raise TransportError(f"{error} while a command was held on {self._passage.host}") from error
        finally:
            join_all(self._process.readers, AFTER_EXIT_SECONDS)
            self._process.stop()
        if rc is None:
            raise CommandTimeout(f"a held command on {self._passage.host} did not end within {timeout:g} s")
        return self._passage.judge(Completed(rc, bytes(self._stdout), bytes(self._stderr)))

    def wait_for_first_line(self, timeout: float | None) -> None:
        """Sets ``first_line`` or ``exited``; for ``hold``."""
        until = None if timeout is None else time.monotonic() + timeout
        pause = 0.005
        while b"\n" not in self._stdout and self._process.wait(pause) is None:
            if until is not None and time.monotonic() > until:
                raise CommandTimeout(f"a command on {self._passage.host} said nothing for {timeout:g} s")
            pause = min(0.1, pause * 1.5)
        if b"\n" not in self._stdout:
            join_all(self._process.readers, AFTER_EXIT_SECONDS)
        if b"\n" in self._stdout:
            self.first_line = bytes(self._stdout).split(b"\n", 1)[0]
        else:
            self.exited = self._end(AFTER_EXIT_SECONDS)


def hold(host: Host, command: str, *, timeout: float | None = None) -> Held:
    """Start a command whose standard input stays open as long as the controller lives: for a lock.

    Returns once it printed a line (``flock … sh -c 'echo got; cat'``) or ended. It sees end-of-file when it
    is released, and also when the controller dies in any way. (When the network goes silent, the host notices
    only if its sshd sends keep-alives.) Raises CommandTimeout when ``timeout`` seconds pass without a line,
    TransportError when the connection breaks.
    """
    stdout, stderr = bytearray(), bytearray()
    passage, process = start(host, command, stdout.extend, stderr.extend)
    held = Held(process, passage, stdout, stderr)
    try:
        held.wait_for_first_line(timeout)
    except BaseException as error:
        process.stop()
        if isinstance(error, ConnectionLost):
            raise TransportError(f"{error} while a command was started on {passage.host}") from error
        raise
    return held
