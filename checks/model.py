"""What every check returns: findings, and the report that adds them up.

The JSON form is a contract (schema ``provcheck/1``): other tools read it, so a field is added, never renamed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any


class Status(str, Enum):
    """The outcome of one check on one subject.

    ``skip`` means that this hardware cannot have the thing; ``unknown`` that it could not be looked at,
    which is never green.
    """

    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"
    SKIP = "skip"
    UNKNOWN = "unknown"


_WORST_FIRST = (Status.FAIL, Status.UNKNOWN, Status.WARN, Status.PASS)

EXIT_PASS, EXIT_FAIL, EXIT_USAGE, EXIT_UNKNOWN = 0, 1, 2, 3


@dataclass(frozen=True)
class Silence:
    """Why a known-bad finding does not count: who answers for it, the reason, the last day (ISO)."""

    owner: str
    reason: str
    until: str

    def __str__(self) -> str:
        return f"silenced by {self.owner} until {self.until}: {self.reason}"


@dataclass(frozen=True)
class Finding:
    """One check on one subject.

    ``id`` is ``<area>.<check>``; ``subject`` is ``gpuN``, ``host``, ``pair A-B``, ``drafter``, ``engine``
    ...; ``value``, ``limit`` and ``unit`` say what was measured against what; ``owner`` says who mends it,
    the ``node``'s operator or the ``user`` of the service. A ``silence`` takes it out of the verdict, not
    out of the report. ``command`` is the command that found it, in a report that joins several.
    """

    id: str
    status: Status
    subject: str
    message: str
    value: Any = None
    limit: Any = None
    unit: str | None = None
    cause: str | None = None
    fix: str | None = None
    owner: str = "node"
    silence: Silence | None = None
    command: str | None = None

    def as_dict(self) -> dict[str, Any]:
        fields = {**asdict(self), "status": self.status.value}
        if self.command is None:
            del fields["command"]
        return fields


def verdict_of(findings: Iterable[Finding]) -> Status:
    """The worst of fail > unknown > warn > pass. ``skip`` never changes it; nothing looked at is unknown.

    A silenced finding does not count; when nothing else was looked at, the verdict is warn, never pass.
    """
    counted = [finding for finding in findings if finding.status is not Status.SKIP]
    seen = {finding.status for finding in counted if finding.silence is None}
    if counted and not seen:
        return Status.WARN
    return next((status for status in _WORST_FIRST if status in seen), Status.UNKNOWN)


@dataclass(frozen=True)
class Report:
    """All findings of one command, with the evidence they rest on (``live`` or ``replayed``)."""

    command: str
    findings: tuple[Finding, ...]
    evidence: str = "live"
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def verdict(self) -> Status:
        return verdict_of(self.findings)

    def exit_code(self, *, strict: bool = False) -> int:
        """0 pass (warnings allowed unless ``strict``), 1 fail, 3 could not check."""
        verdict = self.verdict
        if verdict is Status.FAIL or (strict and verdict is Status.WARN):
            return EXIT_FAIL
        return EXIT_UNKNOWN if verdict is Status.UNKNOWN else EXIT_PASS

    def as_dict(self) -> dict[str, Any]:
        return {
            "schema": "provcheck/1",
            "command": self.command,
            "evidence": self.evidence,
            "verdict": self.verdict.value,
            "findings": [finding.as_dict() for finding in self.findings],
            "facts": self.facts,
        }
