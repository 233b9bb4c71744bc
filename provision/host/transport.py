"""Bytes to and from a host, metal or guest: the only place that knows how a connector moves them.

pyinfra's connectors read whole files into memory, end every line of standard input with a newline and take
all output for UTF-8. Here output is bytes, files are streamed in chunks, and a file is put in one step or
not at all.

Every function takes a connected pyinfra host. A command goes to ``sh`` on that host; a guest's goes through
its machine (``Relay``).
"""

from __future__ import annotations

import shlex
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from typing import Any, BinaryIO

from pyinfra.api.arguments import auth_argument_meta, pop_global_arguments
from pyinfra.api.command import StringCommand
from pyinfra.api.host import Host
from pyinfra.api.state import State
from pyinfra.connectors.local import LocalConnector
from pyinfra.connectors.ssh import SSHConnector
from pyinfra.connectors.util import make_unix_command_for_host

from provision.host._pipes import (
    CHUNK,
    ConnectionLost,
    LocalProcess,
    Process,
    Sink,
    SSHProcess,
    join_all,
)

LONGEST_COMMAND = 120_000
"""Bytes: Linux refuses a single argument of 128 KiB (MAX_ARG_STRLEN) and more."""

AFTER_EXIT_SECONDS = 3.0
"""How long output is still read after a command ended: what it wrote itself is in the pipe by then; what it
left running in the background may hold the pipe open for ever."""

_COUNTER = "kpro_commands"


class TransportError(OSError):
    """A command could not be carried out or followed to its end. (pyinfra fails the host for an OSError.)"""


class CommandTimeout(TransportError, TimeoutError):
    """The time allowed for a command ran out; whether it goes on is not known."""


@dataclass(frozen=True)
class Completed:
    """A command that ended: exit status (negative: ended by a signal) and its output, byte for byte."""

    rc: int
    stdout: bytes
    stderr: bytes

    @property
    def ok(self) -> bool:
        return self.rc == 0

    @property
    def text(self) -> str:
        """Standard output as text; what is no UTF-8 is shown as ``\\xNN``."""
        return self.stdout.decode("utf-8", "backslashreplace")

    @property
    def error_text(self) -> str:
        """Standard error as text, stripped."""
        return self.stderr.decode("utf-8", "backslashreplace").strip()


@dataclass(frozen=True)
class Passage:
    """A command made ready for the machine that carries it.

    ``judge`` looks at what came back and raises when the command never ran inside.
    """

    host: Host
    command: str
    judge: Callable[[Completed], Completed]


class Relay(ABC):
    """A connector without a connection of its own: its commands travel over another host's."""

    @abstractmethod
    def through(self, command: str) -> Passage:
        """Wrap a command. Raises TransportError when there is no way in."""


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
    and the error raised.
    """
    stderr = bytearray()
    done = execute(host, command, BytesIO(), sink.write, stderr.extend, timeout=timeout)
    return done.finish(b"", stderr)


@dataclass(frozen=True)
class Ended:
    """A command that ended, before a relay had a look at what it said."""

    rc: int
    judge: Callable[[Completed], Completed]

    def finish(self, stdout: bytes | bytearray, stderr: bytes | bytearray) -> Completed:
        return self.judge(Completed(self.rc, bytes(stdout), bytes(stderr)))


def execute(
    host: Host,
    command: str,
    source: BinaryIO,
    stdout: Sink,
    stderr: Sink,
    *,
    progress: Callable[[int], object] | None = None,
    timeout: float | None = None,
) -> Ended:
    """The engine of the functions above, for a caller that wants the output while it comes."""
    until = None if timeout is None else time.monotonic() + timeout
    trouble: list[BaseException] = []

    def guarded(sink: Sink) -> Sink:
        def write(data: bytes) -> None:
            if trouble:
                return
            try:
                sink(data)
            except BaseException as error:  # noqa: BLE001 - raised again below, where the caller is
                trouble.append(error)
                process.stop()

        return write

    def feed() -> None:
        sent = 0
        try:
            while data := source.read(CHUNK):
                if not process.write(data):
                    return
                sent += len(data)
                if progress:
                    progress(sent)
        except BaseException as error:  # noqa: BLE001 - raised again below, where the caller is
            trouble.append(error)
            process.stop()
        else:
            process.close_stdin()

    passage, process = _start(host, command, guarded(stdout), guarded(stderr))
    feeder = process.spawn(feed)
    try:
        rc = process.wait(None if until is None else max(0.0, until - time.monotonic()))
    except ConnectionLost as error:
        if not trouble:
            raise TransportError(
                f"{error} while a command ran on {passage.host}: it may still run there; "
                "look before running it again"
            ) from error
        rc = -1
    except BaseException:
        process.stop()
        raise
    if rc is None:
        process.stop()
        raise CommandTimeout(f"a command on {host} did not end within {timeout:g} s and was given up")
    join_all([feeder, *process.readers], AFTER_EXIT_SECONDS)
    process.stop()
    if trouble:
        raise trouble[0]
    return Ended(rc, passage.judge)


class Held:
    """A command that lives as long as this object is held, and no longer than the controller.

    ``first_line`` is what it said once it was ready; ``exited`` is set instead when it ended before that.
    """

    def __init__(self, process: Process, passage: Passage) -> None:
        self._process = process
        self._passage = passage
        self._stdout = bytearray()
        self._stderr = bytearray()
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

    def _end(self, timeout: float | None) -> Completed:
        try:
            rc = self._process.wait(timeout)
        except ConnectionLost as error:
            raise TransportError(f"{error} while a command was held on {self._passage.host}") from error
        finally:
            join_all(self._process.readers, AFTER_EXIT_SECONDS if timeout else 0)
            self._process.stop()
        if rc is None:
            raise CommandTimeout(f"a held command on {self._passage.host} did not end within {timeout:g} s")
        return self._passage.judge(Completed(rc, bytes(self._stdout), bytes(self._stderr)))

    def _wait_for_first_line(self, timeout: float | None) -> None:
        until = None if timeout is None else time.monotonic() + timeout
        pause = 0.005
        while b"\n" not in self._stdout:
            if self._process.wait(pause) is not None:
                join_all(self._process.readers, AFTER_EXIT_SECONDS)
                if b"\n" not in self._stdout:
                    self.exited = self._end(AFTER_EXIT_SECONDS)
                    return
            if until is not None and time.monotonic() > until:
                self._process.stop()
                raise CommandTimeout(f"a command on {self._passage.host} said nothing for {timeout:g} s")
            pause = min(0.1, pause * 1.5)
        self.first_line = bytes(self._stdout).split(b"\n", 1)[0]


def hold(host: Host, command: str, *, timeout: float | None = None) -> Held:
    """Start a command whose standard input stays open as long as the controller lives: for a lock, ``flock …
    cat``.

    Returns once it printed a line or ended. It sees end-of-file when released, and also when the controller
    dies in any way (a network that goes silent is noticed by the host's sshd only, if that sends
    keep-alives). Raises CommandTimeout when ``timeout`` seconds pass without a line.
    """
    stdout, stderr = bytearray(), bytearray()
    passage, process = _start(host, command, stdout.extend, stderr.extend)
    held = Held(process, passage)
    held._stdout, held._stderr = stdout, stderr
    held._wait_for_first_line(timeout)
    return held


def remote_commands(host: Host) -> int:
    """How many commands this run sent to a host: those of this module, of a guest's connector, and
    (``watch``) of pyinfra's own facts and operations."""
    return int(host.connector_data.get(_COUNTER, 0))


def count(host: Host) -> None:
    """Note one more command for a host."""
    host.connector_data[_COUNTER] = remote_commands(host) + 1


def watch(state: State) -> None:
    """From now on count pyinfra's own commands on the metal too (a guest's connector counts its own)."""
    for host in state.inventory:
        if not isinstance(host.connector, Relay) and "run_shell_command" not in host.__dict__:
            host.run_shell_command = _counting(host, host.run_shell_command)  # type: ignore[method-assign]


def _counting(host: Host, run_shell_command: Callable[..., Any]) -> Callable[..., Any]:
    def counted(*args: Any, **kwargs: Any) -> Any:
        count(host)
        return run_shell_command(*args, **kwargs)

    return counted


def _start(host: Host, command: str, stdout: Sink, stderr: Sink) -> tuple[Passage, Process]:
    count(host)
    passage = Passage(host, command, lambda completed: completed)
    connector = host.connector
    if isinstance(connector, Relay):
        passage = connector.through(command)
    return passage, _start_on_metal(passage.host, passage.command, stdout, stderr)


def _start_on_metal(host: Host, command: str, stdout: Sink, stderr: Sink) -> Process:
    raw = _as_configured(host, command).encode("utf-8", "surrogateescape")
    if len(raw) > LONGEST_COMMAND:
        raise TransportError(
            f"a command of {len(raw)} bytes is too long for {host} (at most {LONGEST_COMMAND}): "
            "send it as standard input of `sh -s`"
        )
    if b"\0" in raw:
        raise TransportError(f"a command for {host} holds a NUL byte: no shell takes that")
    connector = host.connector
    if isinstance(connector, LocalConnector):
        return LocalProcess(raw, stdout, stderr)
    if isinstance(connector, SSHConnector):
        try:
            return SSHProcess(connector.client, raw, stdout, stderr)
        except ConnectionLost as error:
            raise TransportError(f"{host}: {error}; nothing was run") from error
    raise TransportError(
        f"{host}: no way to move bytes over pyinfra's {type(connector).__name__}; "
        "use @local or a host reached by SSH"
    )


def _as_configured(host: Host, command: str) -> str:
    """``sh -c`` around the command, and sudo or su around that where host data or pyinfra's own flags say
    so."""
    arguments, _ = pop_global_arguments(host.state, host, {})
    auth: dict[str, Any] = {key: value for key, value in arguments.items() if key in auth_argument_meta}
    unix = make_unix_command_for_host(host.state, host, StringCommand(command), **auth)
    return str(unix.get_raw_value())


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


def remaining(source: BinaryIO) -> int:
    """Bytes from the current position to the end."""
    start = source.tell()
    end = source.seek(0, 2)
    source.seek(start)
    return end - start


_PUT = """\
set -u
p={path}; n={size}; m={mode}; o={owner}; t=
say() {{ printf '%s\\n' "$1" >&2; exit 1; }}
trap '[ -z "$t" ] || rm -f -- "$t"' EXIT
trap 'exit 129' HUP; trap 'exit 130' INT; trap 'exit 141' PIPE; trap 'exit 143' TERM
[ ! -d "$p" ] || [ -L "$p" ] || say "$p is a directory"
d=$(dirname -- "$p") && [ -d "$d" ] || say "the folder $d does not exist"
t=$(umask 077 && mktemp -- "$d/.kpro-put.XXXXXXXXXX") || exit 1
cat > "$t" || say "the new content could not be written"
g=$(stat -c %s -- "$t") || exit 1
[ "$g" = "$n" ] || say "$g of $n bytes arrived"
if [ -f "$p" ] && [ ! -L "$p" ]; then
  : "${{m:=$(stat -c %a -- "$p")}}" "${{o:=$(stat -c %u:%g -- "$p")}}"
fi
: "${{m:=$(printf '%o' $((0666 & ~$(umask))))}}"
[ -z "$o" ] || chown -- "$o" "$t" || exit 1
chmod -- "$m" "$t" || exit 1
sync -- "$t" 2>/dev/null || sync
mv -fT -- "$t" "$p" || exit 1
t=
sync -- "$d" 2>/dev/null || sync
"""


def put_atomic_script(path: str, mode: str | None = None, owner: str | None = None, *, size: int) -> str:
    """Shell text that makes standard input, of exactly ``size`` bytes, the file ``path``.

    The bytes go to a temporary file in the same folder (0600 while they come), which is flushed to disk,
    given its owner and mode, and renamed over the target. Fewer bytes than ``size`` mean that the sender
    died: the old file stays and the temporary one is removed. Without ``mode`` or ``owner`` an existing
    file's are kept. A directory is refused. A symbolic link is **replaced, not followed**: what it points to
    stays as it is.
    """
    return _PUT.format(
        path=shlex.quote(path), size=size, mode=shlex.quote(mode or ""), owner=shlex.quote(owner or "")
    )
