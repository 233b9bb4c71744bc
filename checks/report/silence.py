"""Known-bad findings, silenced with owner, reason and expiry. A silence is shown, never hidden.

A silence file is JSON: ``[{"id": "gpu.power_limit", "subject": "gpu0", "owner": "ops@example.org", "reason":
"rack budget until the new feed", "until": "2027-01-31"}]``. ``subject`` may be left out: any subject.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from checks.errors import BadInput
from checks.model import Finding, Silence

_KEYS = {"id", "subject", "owner", "reason", "until"}
_SIZE_LIMIT = 1 << 20


@dataclass(frozen=True)
class Rule:
    """One line of a silence file; ``subject`` None means any."""

    id: str
    subject: str | None
    silence: Silence


def load(path: Path) -> tuple[Rule, ...]:
    """Reads a silence file. Raises BadInput naming the first entry that is wrong."""
    try:
        with path.open("rb") as file:
            raw = file.read(_SIZE_LIMIT + 1)
        data = json.loads(raw) if len(raw) <= _SIZE_LIMIT else None
    except OSError as error:
        raise BadInput(f"cannot read the silences in {path}: {error.strerror}") from None
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, list):
        raise BadInput(f"{path} is no list of silences in JSON")
    return tuple(_rule(path, number, entry) for number, entry in enumerate(data, 1))


def _rule(path: Path, number: int, entry: object) -> Rule:
    from checks.data.catalogue import (
        CATALOGUE,  # two hundred rows, which a run without silences does not need
    )

    where = f"{path}, silence {number}"
    if not isinstance(entry, dict) or not all(isinstance(value, str) for value in entry.values()):
        raise BadInput(f"{where}: not an object of texts")
    if missing := sorted({"id", "owner", "reason", "until"} - entry.keys()):
        raise BadInput(
            f"{where}: {', '.join(missing)} missing; a silence needs an owner, a reason and an end"
        )
    if extra := sorted(entry.keys() - _KEYS):
        raise BadInput(f"{where}: unknown {', '.join(extra)}; known are {', '.join(sorted(_KEYS))}")
    if entry["id"] not in CATALOGUE:
        raise BadInput(
            f"{where}: no finding is called {entry['id'][:60]!r}; 'provcheck explain --list' has all"
        )
    if not entry["owner"].strip() or not entry["reason"].strip():
        raise BadInput(f"{where}: owner and reason must say something")
    try:
        good = datetime.date.fromisoformat(entry["until"]).isoformat() == entry["until"]
    except ValueError:
        good = False
    if not good:
        raise BadInput(f"{where}: until must be a date like 2027-01-31, not {entry['until']!r}")
    return Rule(entry["id"], entry.get("subject"), Silence(entry["owner"], entry["reason"], entry["until"]))


def apply(findings: Iterable[Finding], rules: Sequence[Rule], today: datetime.date) -> tuple[Finding, ...]:
    """Marks the findings that a silence still in force names; a silence holds through its last day."""
    alive = [rule for rule in rules if datetime.date.fromisoformat(rule.silence.until) >= today]
    return tuple(_silenced(finding, alive) for finding in findings)


def expired(findings: Iterable[Finding], rules: Sequence[Rule], today: datetime.date) -> tuple[str, ...]:
    """What is not well again because its silence is over, in words; empty when there is none."""
    over = [rule for rule in rules if datetime.date.fromisoformat(rule.silence.until) < today]
    return tuple(
        f"{finding.subject} {finding.id}, the silence of {hushed.owner} ended on {hushed.until}: {hushed.reason}"
        for finding in findings
        if finding.silence is None and (hushed := _silenced(finding, over).silence) is not None
    )


def _silenced(finding: Finding, rules: Sequence[Rule]) -> Finding:
    if finding.status.value in ("pass", "skip"):
        return finding
    for rule in rules:
        if rule.id == finding.id and rule.subject in (None, finding.subject):
            return replace(finding, silence=rule.silence)
    return finding
