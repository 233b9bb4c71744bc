"""Machines as their guests see them: connected, being connected, left out by ``--limit``, failed and why.

pyinfra connects all hosts at once, knows nothing of hosts behind hosts, and keeps no reason for a failure.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import gevent
from gevent.event import Event
from gevent.lock import BoundedSemaphore
from pyinfra.api.exceptions import ConnectError, PyinfraError
from pyinfra.api.host import Host
from pyinfra.api.state import BaseStateCallback, State


@dataclass
class _Attempt:
    """One attempt to connect. An exception that pyinfra does not expect ends its greenlet without a word."""

    greenlet: Any
    ended: Event = field(default_factory=Event)

    def wait(self) -> str | None:
        """Until it ended; the reason when it ended without a word."""
        while not self.ended.wait(0.2):
            if getattr(self.greenlet, "dead", False):
                return str(getattr(self.greenlet, "exception", None) or "the attempt was given up")
        return None


class Parents(BaseStateCallback):
    """Listens to one run's connection attempts."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._attempts: dict[Host, _Attempt] = {}
        self._errors: dict[Host, str] = {}
        self._one_at_a_time = BoundedSemaphore()

    def host_before_connect(self, state: State, host: Host) -> None:  # type: ignore[override]
        self._errors.pop(host, None)
        self._attempts[host] = _Attempt(gevent.getcurrent())

    def host_connect(self, state: State, host: Host) -> None:  # type: ignore[override]
        self._attempts[host].ended.set()

    def host_connect_error(self, state: State, host: Host, error: Any) -> None:  # type: ignore[override]
        self._errors[host] = str(error)
        self._attempts[host].ended.set()

    def connect(self, parent: Host, guest: Host) -> None:
        """Have the machine connected. Raises ConnectError with the machine's own reason.

        A machine within the limit is connected by pyinfra itself: an attempt under way is waited for, one
        that has not begun is left to it (waiting could fill pyinfra's pool with waiters), and the guest's
        first command finds out. A machine that ``--limit`` left out is connected here, and never activated:
        no step runs on it.
        """
        if self._state.is_host_in_limit(parent):
            gevent.sleep(0)  # its attempt may be next in the queue
            if parent in self._attempts and not parent.connected:
                reason = self._attempts[parent].wait()
                if reason:
                    self._errors[parent] = reason
        else:
            with self._one_at_a_time:
                if parent not in self._errors:
                    self._try(parent, f"for {guest.name}, itself left out by the limit")
        if parent in self._errors and not parent.connected:
            raise ConnectError(f"its machine {parent.name} cannot be reached: {self._errors[parent]}")

    def why_unusable(self, parent: Host) -> str | None:
        """Why no command can go through the machine now; None when it can."""
        if parent in self._state.failed_hosts:
            reason = self._errors.get(parent) or self._failed_step(parent)
            return f"its machine {parent.name} failed" + (f": {reason}" if reason else "")
        # After a reboot the machine is not connected; pyinfra's own facts connect again in this way too.
        self._try(parent)
        if not parent.connected:
            return f"its machine {parent.name} cannot be reached: {self._errors.get(parent, 'no reason is known')}"
        return None

    def _try(self, parent: Host, reason: str | None = None) -> None:
        try:
            parent.connect(reason=reason, show_errors=False)
        except PyinfraError as error:
            self._errors[parent] = str(error)

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
