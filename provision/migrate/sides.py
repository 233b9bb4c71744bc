"""The two ends of a migration as its steps know them: a machine, the guest of the service, a shell on each.

Real hosts (``provision.migrate.live``) and the model of the tests are the same to every step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from provision.host.transport import Completed, TransportError
from provision.plan import Plan
from provision.spec import Guest, Machine, Service

__all__ = ["Completed", "Side", "Target", "TransportError"]


class Side(Protocol):
    """One machine and the guest that the service is in.

    Scripts are POSIX sh with absolute paths and run as root. A connection that is lost raises TransportError.
    """

    @property
    def name(self) -> str:
        """The machine's name in its inventory."""

    @property
    def machine(self) -> Machine: ...

    @property
    def guest(self) -> Guest: ...

    @property
    def service(self) -> Service: ...

    def host(self, script: str, *, stdin: bytes = b"", timeout: float | None = 60) -> Completed:
        """Runs a script on the metal."""

    def inside(self, script: str, *, stdin: bytes = b"", timeout: float | None = 60) -> Completed:
        """Runs a script in the guest. Raises TransportError where it does not run."""

    def hold(self) -> None:
        """The machine is still this run's: takes its lock, again where a connection broke. Raises RunError."""


class Target(Side, Protocol):
    """The end that the chain is carried out on, for this one service; its candidates are left out."""

    def plan(self, phases: Sequence[str]) -> Plan:
        """What the chain would do there now."""

    def apply(self, phases: Sequence[str]) -> None:
        """Carries the chain out. Raises Refused when its plan is, RunError with the first problem otherwise."""
