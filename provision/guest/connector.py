"""pyinfra connector ``@guest/<host>/<name>``: a container, reached through its machine's own connection.

It opens nothing itself and remembers nothing of the machine's connection: after a reboot the machine's
connector has a new client, and the next command uses that.

While pyinfra plans, a container that is absent or stopped answers every command with success and no output,
so that facts give their defaults and one run can plan everything, from nothing through the container's
creation. A state that cannot be told is an error at all times, and so is a machine that failed.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from io import BytesIO
from typing import Any, cast

from pyinfra.api.command import QuoteString, StringCommand
from pyinfra.api.exceptions import ConnectError, InventoryError, NoHostError
from pyinfra.api.host import Host
from pyinfra.api.output import echo
from pyinfra.api.state import State, StateStage
from pyinfra.connectors.base import BaseConnector
from pyinfra.connectors.util import (
    CommandOutput,
    OutputLine,
    execute_command_with_sudo_retry,
    extract_control_arguments,
    make_unix_command_for_host,
)

from provision.guest import parents, states
from provision.guest.local_io import Lines, seekable, sink_for, stdin_bytes
from provision.guest.states import GuestState, Seen
from provision.host import transport
from provision.host.transport import CommandTimeout, Completed, Passage, Relay, TransportError
from provision.spec import Guest

_NAME = re.compile(r"(@local|[A-Za-z0-9][\w.-]*)/([a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)")


class GuestUnavailable(TransportError):
    """The command was not run: the container does not run, or its state cannot be told (``seen``)."""

    def __init__(self, text: str, seen: Seen) -> None:
        super().__init__(text)
        self.seen = seen


class GuestConnector(BaseConnector, Relay):
    """``@guest/<host>/<name>``; host data ``guest`` (provision.spec.Guest) says which backend and which
    id."""

    handles_execution = True

    def __init__(self, state: State, host: Host) -> None:
        super().__init__(state, host)
        self._parents = parents.of(state)

    @staticmethod
    def make_names_data(name: str | None = None) -> Iterator[tuple[str, dict[str, Any], list[str]]]:
        if not _NAME.fullmatch(name or ""):
            raise InventoryError(
                f"@guest/{name or ''} names no guest: write @guest/<host>/<name>, where <host> is @local or "
                "a host of this inventory and <name> is made of lower-case letters, digits and dashes"
            )
        yield f"@guest/{name}", {}, ["@guest"]

    @property
    def parent(self) -> Host:
        """The machine. Raises NoHostError when the inventory has none of that name."""
        name = self.host.name.removeprefix("@guest/").rpartition("/")[0]
        try:
            return self.state.inventory.get_host(name)
        except NoHostError as error:
            raise NoHostError(
                f"{self.host.name}: the inventory has no host {name!r}; list the guest's machine too"
            ) from error

    def spec(self) -> Guest:
        """What the inventory says of the container. Raises TransportError when it says nothing."""
        spec = self.host.data.get("guest")
        if not isinstance(spec, Guest):
            raise TransportError(
                f"{self.host.name}: host data has no 'guest', so nothing says which container it is; "
                "make the inventory with Machine(...).pyinfra_groups()"
            )
        return spec

    @property
    def executing(self) -> bool:
        """Are changes being made now? pyinfra's command line sets the stage, its API the flag only."""
        return self.state.is_executing or self.state.current_stage >= StateStage.Execute

    def connect(self) -> None:
        try:
            self.spec()
            self._parents.connect(self.parent, self.host)
        except (NoHostError, TransportError) as error:
            raise ConnectError(str(error)) from error

    def through(self, command: str) -> Passage:
        parent = self._ready_parent()
        guest, nonce = self.spec(), secrets.token_hex(8)
        script = states.enter_script(guest.backend, guest.id, command, nonce, busy=self.executing)

        def judge(completed: Completed) -> Completed:
            seen = states.read_answer(nonce, completed.rc, completed.stderr)
            if seen:
                raise GuestUnavailable(self._sentence(seen), seen)
            return completed

        return Passage(parent, script, judge)

    def look(self) -> Seen:
        """The container's state now. Raises TransportError when the machine cannot be asked."""
        guest, nonce = self.spec(), secrets.token_hex(8)
        answer = transport.run(
            self._ready_parent(), states.probe_script(guest.backend, guest.id, nonce), timeout=90
        )
        if answer.ok:
            return Seen(GuestState.RUNNING, "")
        return states.read_answer(nonce, answer.rc, answer.stderr) or Seen(
            GuestState.UNKNOWN, answer.error_text or f"exit {answer.rc}"
        )

    def run_shell_command(
        self,
        command: StringCommand,
        print_output: bool = False,
        print_input: bool = False,
        **arguments: Any,
    ) -> tuple[bool, CommandOutput]:
        control = cast(dict[str, Any], extract_control_arguments(cast(Any, arguments)))
        given = stdin_bytes(control.get("_stdin"))

        prefix = self.host.print_prefix if print_output else None

        def attempt() -> tuple[int, CommandOutput]:
            unix = self._unix(command, arguments)
            if print_input:
                echo(f"{self.host.print_prefix}>>> {unix}", err=True)
            lines: list[OutputLine] = []
            stdout, stderr = Lines("stdout", lines, prefix), Lines("stderr", lines, prefix)
            ended = transport.execute(
                self.host,
                unix.get_raw_value(),
                BytesIO(given),
                stdout.write,
                stderr.write,
                timeout=control.get("_timeout") or None,
            )
            stdout.close()
            stderr.close()
            output = CommandOutput(lines)
            ended.finish(b"", output.stderr.encode())
            return ended.rc, output

        try:
            rc, output = execute_command_with_sudo_retry(self.host, cast(Any, arguments), attempt)
        except GuestUnavailable as error:
            if error.seen.state in (GuestState.ABSENT, GuestState.STOPPED) and not self.executing:
                return True, CommandOutput([])
            return False, CommandOutput([OutputLine("stderr", str(error))])
        except CommandTimeout:
            raise
        except TransportError as error:
            return False, CommandOutput([OutputLine("stderr", str(error))])
        return rc in (control.get("_success_exit_codes") or [0]), output

    def put_file(
        self,
        filename_or_io: Any,
        remote_filename: str,
        remote_temp_filename: str | None = None,
        print_output: bool = False,
        print_input: bool = False,
        **arguments: Any,
    ) -> bool:
        control = extract_control_arguments(cast(Any, arguments))
        with seekable(filename_or_io) as source:
            size = transport.remaining(source)
            script = StringCommand(transport.put_atomic_script(remote_filename, size=size))
            done = transport.stream(
                self.host,
                self._unix(script, arguments).get_raw_value(),
                source,
                timeout=control.get("_timeout") or None,
            )
        if not done.ok:
            raise TransportError(
                f"{self.host.name}: {remote_filename} was not written: {done.error_text or f'exit {done.rc}'}"
            )
        if print_output:
            echo(f"{self.host.print_prefix}file uploaded: {remote_filename}", err=True)
        return True

    def get_file(
        self,
        remote_filename: str,
        filename_or_io: Any,
        remote_temp_filename: str | None = None,
        print_output: bool = False,
        print_input: bool = False,
        **arguments: Any,
    ) -> bool:
        control = extract_control_arguments(cast(Any, arguments))
        read = StringCommand("exec", "cat", "--", QuoteString(remote_filename))
        raw = self._unix(read, arguments).get_raw_value()
        with sink_for(filename_or_io) as sink:
            done = transport.fetch(self.host, raw, sink, timeout=control.get("_timeout") or None)
            if not done.ok:
                raise TransportError(
                    f"{self.host.name}: {remote_filename} was not read: "
                    f"{done.error_text or f'exit {done.rc}'}"
                )
        if print_output:
            echo(f"{self.host.print_prefix}file downloaded: {remote_filename}", err=True)
        return True

    def _unix(self, command: StringCommand, arguments: dict[str, Any]) -> StringCommand:
        given = dict(arguments)
        if given.get("_sudo") and not given.get("_sudo_user"):
            # Inside we are root already, and a small root has no sudo.
            given["_sudo"] = False
        return make_unix_command_for_host(self.state, self.host, command, **given)

    def _ready_parent(self) -> Host:
        parent = self.parent
        reason = self._parents.why_unusable(parent)
        if reason:
            raise TransportError(f"{self.host.name} cannot be reached: {reason}")
        return parent

    def _sentence(self, seen: Seen) -> str:
        guest = self.spec()
        what = f"guest {guest.name} ({guest.backend} {guest.id}) on {self.parent.name}"
        if seen.state is GuestState.UNKNOWN:
            return (
                f"{what}: its state cannot be told ({seen.text}), so nothing was run in it; "
                "look at it on the machine, then run again"
            )
        step = "create" if seen.state is GuestState.ABSENT else "start"
        return f"{what} is {seen.state.value} ({seen.text}), so nothing was run in it; {step} it first"
