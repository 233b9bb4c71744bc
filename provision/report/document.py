"""What a report says, as values: schema ``kpro-report/1``. A field is added, never renamed. Pure.

Times are ISO 8601 in UTC as the journal has them, ``at`` seconds since the run began, durations seconds, sizes bytes,
rates bytes or tokens a second, shares 0 to 1. None: not measured, or not known.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

SCHEMA = "kpro-report/1"


@dataclass(frozen=True)
class Asked:
    """``command`` as the operator gave it; ``facts``: what else the first event of the journal says."""

    command: str
    kind: str
    by: str = ""
    phases: tuple[str, ...] = ()
    machines: tuple[str, ...] = ()
    services: tuple[str, ...] = ()
    began: str = ""
    ended: str = ""
    seconds: float | None = None
    version: str = ""
    source: str = ""
    target: str = ""


@dataclass(frozen=True)
class Outcome:
    """``state`` is one of the words of ``provision.report.outcome``; ``why``: the reasons, each whole."""

    state: str
    exit: int | None
    text: str
    well: bool
    why: tuple[str, ...] = ()
    next: tuple[str, ...] = ()


@dataclass(frozen=True)
class Step:
    """``state``: done, failed, undone, nothing to do, under way (it never ended). ``spans``: pairs of ``at``."""

    name: str
    state: str
    seconds: float | None
    spans: tuple[tuple[float, float], ...] = ()
    host: str = ""
    text: str = ""
    why: str = ""
    changes: int = 0
    of: str = ""


@dataclass(frozen=True)
class Change:
    """One item of a plan that was begun. ``state``: done, failed, under way."""

    step: str
    host: str
    text: str
    state: str
    seconds: float | None
    costs: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True)
class Look:
    """One verdict of a gate. ``of``: whose it is, in words (this run, the source, an earlier run)."""

    verdict: str
    of: str
    evidence: str = ""
    seconds: float | None = None
    said: str = ""
    when: str = ""


@dataclass(frozen=True)
class Gate:
    host: str
    service: str
    gate: str
    before: Look | None
    after: Look | None


@dataclass(frozen=True)
class Finding:
    """Of a gate or a measurement, and not pass. ``silence``: by whom, until when, why; empty where it counts."""

    status: str
    id: str
    subject: str
    message: str
    where: str
    value: str = ""
    limit: str = ""
    cause: str = ""
    fix: str = ""
    silence: str = ""


@dataclass(frozen=True)
class Refusal:
    machine: str
    where: str
    seen: str
    why: str
    next: str


@dataclass(frozen=True)
class Candidate:
    """A cut-over with what was forecast and what was measured of it. ``verdict``: accepted, refused, or empty."""

    host: str
    service: str
    profile: str
    candidate: bool
    mode: str
    verdict: str
    forecast: str
    forecast_s: float | None
    downtime_s: float | None
    start_s: float | None
    measured_s: float | None
    tok_s: float | None
    acceptance: float | None
    why: str = ""


@dataclass(frozen=True)
class Reading:
    """How a service generated. ``label``: whose reading; ``baseline``: it is what the others are held against.
    ``by_concurrency``: tokens/s of one request by how many there are at once; ``per_position``: share accepted."""

    service: str
    label: str
    baseline: bool
    tok_s: float | None = None
    by_concurrency: tuple[tuple[int, float], ...] = ()
    acceptance: float | None = None
    per_position: tuple[float, ...] = ()
    ttft_ms: float | None = None


@dataclass(frozen=True)
class Copy:
    """``samples``: pairs of ``at`` and bytes done."""

    step: str
    bytes: float | None
    total: float | None
    seconds: float | None
    rate: float | None
    files: int | None
    route: str
    state: str
    differences: tuple[str, ...] = ()
    samples: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True)
class Downtime:
    """``seconds`` None: not measured."""

    service: str
    seconds: float | None
    forecast_s: float | None
    how: str


@dataclass(frozen=True)
class Answers:
    verdict: str
    compared: int | None
    first_token_share: float | None
    least_share: float | None
    logprob_diff: float | None
    tolerance: float | None
    exact: bool
    said: str


@dataclass(frozen=True)
class Back:
    """A command for going back, or on; ``where``: it is given on the controller or the machine."""

    what: str
    command: str
    where: str = "controller"


@dataclass(frozen=True)
class Claim:
    """What a demonstration is for: ``state`` is shown, WRONG or not shown; ``seen`` what that rests on."""

    what: str
    seen: str
    state: str


@dataclass(frozen=True)
class Moved:
    """What moves to the target (``stays`` False), and how; or what does not, and why."""

    what: str
    how: str
    stays: bool = False


@dataclass(frozen=True)
class Report:
    """``evidence``: live, replayed (a verdict rests on a record), none (no gate was asked)."""

    run: str
    kpro: str
    asked: Asked
    outcome: Outcome
    evidence: str
    runs: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    changes: tuple[Change, ...] = ()
    downtime: tuple[Downtime, ...] = ()
    copies: tuple[Copy, ...] = ()
    gates: tuple[Gate, ...] = ()
    findings: tuple[Finding, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    readings: tuple[Reading, ...] = ()
    answers: tuple[Answers, ...] = ()
    moved: tuple[Moved, ...] = ()
    claims: tuple[Claim, ...] = ()
    said: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    back: tuple[Back, ...] = ()
    lost: tuple[str, ...] = ()
    events: tuple[dict[str, Any], ...] = field(default=(), repr=False)

    @property
    def silences(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.silence)

    def as_dict(self) -> dict[str, Any]:
        """The JSON document. The events themselves are in the journal, and are not repeated in it."""
        whole = asdict(self)
        del whole["events"]
        return {"schema": SCHEMA, **whole, "silences": [asdict(one) for one in self.silences]}
