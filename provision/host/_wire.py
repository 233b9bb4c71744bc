"""How a command gets onto a connector, and the values that come back: what the transport is made of."""

from __future__ import annotations

import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyinfra.api.arguments import auth_argument_meta, pop_global_arguments
from pyinfra.api.command import StringCommand
from pyinfra.api.host import Host
from pyinfra.api.state import State
from pyinfra.connectors.local import LocalConnector
from pyinfra.connectors.ssh import SSHConnector
from pyinfra.connectors.util import make_unix_command_for_host

from provision.host._pipes import ConnectionLost, LocalProcess, Process, Sink, SSHProcess

LONGEST_COMMAND = 120_000
"""Bytes: Linux refuses a single argument of 128 KiB (MAX_ARG_STRLEN) and more."""

_COUNTER = "kpro_commands"


class TransportError(OSError):
    """A command could not be carried out or followed to its end. (pyinfra fails the host for an OSError.)"""


class CommandTimeout(TransportError, TimeoutError):
    """The time allowed for a command ran out; whether it goes on is not known."""


@dataclass(frozen=True)
class Completed:
    """A command that ended: exit status and its output, byte for byte.

    A command ended by signal n has the status 128 + n (-1 where SSH does not tell which).

    ``whole`` is False when something that it left running holds its output open: all that came is here.
    """

    rc: int
    stdout: bytes
    stderr: bytes
    whole: bool = True

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


def start(
    host: Host, command: str, stdout: Sink, stderr: Sink, *, lasting: bool = False
) -> tuple[Passage, Process]:
    """``lasting``: it goes on, and keeps the machine busy, when the controller lets go of it in any way."""
    count(host)
    passage = Passage(host, command, lambda completed: completed)
    connector = host.connector
    if isinstance(connector, Relay):
        passage = connector.through(command)
    if lasting:
        # A session of its own: what ends a local command ends the whole group that it was started in.
        words = f"setsid -w /bin/sh -c {shlex.quote(passage.command)}"
        passage = Passage(passage.host, words, passage.judge)
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
