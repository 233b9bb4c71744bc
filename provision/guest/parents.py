"""Machines as their guests see them: connected, being connected, left out by ``--limit``, failed and why.

pyinfra connects all hosts at once, knows nothing of hosts behind hosts, and keeps no reason for a failure.
"""

from __future__ import annotations

from typing import Any

from gevent.event import Event
from gevent.lock import BoundedSemaphore
from pyinfra.api.exceptions import ConnectError
from pyinfra.api.host import Host
from pyinfra.api.state import BaseStateCallback, State


class Parents(BaseStateCallback):
    """Listens to one run's connection attempts."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._attempts: dict[Host, Event] = {}
        self._errors: dict[Host, str] = {}
        self._one_at_a_time = BoundedSemaphore()

    def host_before_connect(self, state: State, host: Host) -> None:  # type: ignore[override]
        self._attempts[host] = Event()

    def host_connect(self, state: State, host: Host) -> None:  # type: ignore[override]
        self._errors.pop(host, None)
        self._ended(host)

    def host_connect_error(self, state: State, host: Host, error: Any) -> None:  # type: ignore[override]
        self._errors[host] = str(error)
        self._ended(host)

    def _ended(self, host: Host) -> None:
        if host in self._attempts:
            self._attempts[host].set()

    def connect(self, parent: Host, guest: Host) -> None:
        """Have the machine connected. Raises ConnectError with the machine's own reason.

        A machine within the limit is connected by pyinfra itself: an attempt under way is waited for, one
        that has not begun is left to it (waiting could fill pyinfra's pool with waiters), and the guest's
        first command finds out. A machine that ``--limit`` left out is connected here, and never activated:
        no step runs on it.
        """
        if self._state.is_host_in_limit(parent):
            if parent in self._attempts and not parent.connected:
                self._attempts[parent].wait()
        else:
            with self._one_at_a_time:
                if not parent.connected and parent not in self._errors:
                    parent.connect(
                        reason=f"for {guest.name}, itself left out by the limit", show_errors=False
                    )
        if parent in self._errors and not parent.connected:
            raise ConnectError(f"its machine {parent.name} cannot be reached: {self._errors[parent]}")

    def why_unusable(self, parent: Host) -> str | None:
        """Why no command can go through the machine now; None when it can."""
        if parent in self._state.failed_hosts:
            reason = self._errors.get(parent) or self._failed_step(parent)
            return f"its machine {parent.name} failed" + (f": {reason}" if reason else "")
        if not parent.connected:
            # A machine that just rebooted: pyinfra's own facts connect again in this way too.
            parent.connect(show_errors=False)
        if not parent.connected:
            reason = self._errors.get(parent, "it was never connected")
            return f"its machine {parent.name} cannot be reached: {reason}"
        return None

    def _failed_step(self, parent: Host) -> str:
        """The operation that failed there, and the last thing it said."""
        for op_hash, data in self._state.ops[parent].items():
            meta = data.operation_meta
            if meta.is_complete() and meta.did_error():
                names = ", ".join(sorted(self._state.op_meta[op_hash].names))
                said = meta.stderr_lines[-1] if meta.stderr_lines else ""
                return f"step {names!r}" + (f" ({said})" if said else "")
        return ""


def of(state: State) -> Parents:
    """The run's one listener, made on first use."""
    for handler in state.callback_handlers:
        if isinstance(handler, Parents):
            return handler
    parents = Parents(state)
    state.callback_handlers.append(parents)
    return parents
