"""The Nagios plugin form: one line whose first 80 characters say it all, performance data, then every
finding.

Node Problem Detector cuts a message at 80 characters by default, hence the worst finding comes first.
"""

from __future__ import annotations

from checks.model import Finding, Report, Status
from checks.report.text import clean, counts

_WORD = {Status.PASS: "OK", Status.WARN: "WARNING", Status.FAIL: "CRITICAL", Status.UNKNOWN: "UNKNOWN"}
_WORST_FIRST = (Status.FAIL, Status.UNKNOWN, Status.WARN)


def render(report: Report, *, strict: bool, color: bool) -> str:
    verdict = report.verdict
    word = "CRITICAL" if strict and verdict is Status.WARN else _WORD[verdict]
    replayed = " (REPLAYED)" if report.evidence == "replayed" else ""
    bad = sorted(
        (f for f in report.findings if f.status in _WORST_FIRST and f.silence is None),
        key=lambda finding: _WORST_FIRST.index(finding.status),
    )
    said = "; ".join(f"{f.subject} {f.id}: {f.message}" for f in bad[:3]) or counts(report)
    more = f"; {len(bad) - 3} more" if len(bad) > 3 else ""
    data = " ".join(filter(None, map(_perfdata, report.findings)))
    first = f"PROVCHECK {word}{replayed}: {_plain(said)}{more}"
    rest = [f"{f.status.value} {f.subject} {f.id}: {f.message}{_silence(f)}" for f in report.findings]
    return "\n".join([f"{first} | {data}" if data else first, *map(_plain, rest)]) + "\n"


def _perfdata(finding: Finding) -> str:
    if not _number(finding.value):
        return ""
    label = clean(f"{finding.subject}.{finding.id}").replace("'", "").replace("=", "")
    unit = finding.unit if finding.unit in ("s", "ms", "us", "%", "B") else ""
    return f"'{_plain(label)}'={finding.value}{unit}"


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _silence(finding: Finding) -> str:
    return "" if finding.silence is None else f" [{finding.silence}]"


def _plain(text: str) -> str:
    return clean(text).replace("|", "/")
