"""The Nagios plugin form: one line whose first 80 characters say it all, performance data, then what is not well.

Node Problem Detector cuts a message at 80 characters by default, hence the worst finding comes first. Nagios
reads at most 8 KiB of a plugin, so the data that would not fit is left out, and that is said.
Source: monitoring-plugins guidelines, 'Plugin Output for Nagios' and 'Performance data'.
"""

from __future__ import annotations

import math

from checks.model import Finding, Report, Status
from checks.report import Look
from checks.report.text import clean, counts, expired, span

_WORD = {Status.PASS: "OK", Status.WARN: "WARNING", Status.FAIL: "CRITICAL", Status.UNKNOWN: "UNKNOWN"}
_WORST_FIRST = (Status.FAIL, Status.UNKNOWN, Status.WARN)
_UNITS = ("s", "ms", "us", "%", "B")
SIZE_LIMIT = 8000
_DATA_LIMIT = 5000
_LINE_LIMIT = 300


def render(report: Report, look: Look) -> str:
    verdict = report.verdict
    word = "CRITICAL" if look.strict and verdict is Status.WARN else _WORD[verdict]
    replayed = " (REPLAYED)" if report.evidence == "replayed" else ""
    bad = sorted(
        (f for f in report.findings if f.status in _WORST_FIRST and f.silence is None),
        key=lambda finding: _WORST_FIRST.index(finding.status),
    )
    alike = _alike(bad)
    said = "; ".join(_together(group)[:_LINE_LIMIT] for group in alike[:3]) or counts(report)
    left = sum(map(len, alike[3:]))
    more = f"; {left} more" if left else ""
    data = _data(report.findings)
    first = f"PROVCHECK {word}{replayed}: {_plain(said)}{more}"
    lines = [f"{first} | {data}" if data else first]
    hushed = [f for f in report.findings if f.silence is not None]
    shown = report.findings if look.verbose else (*bad, *hushed)
    rest = [f"{f.status.value} {f.subject} {f.id}: {f.message}"[:_LINE_LIMIT] + _silence(f) for f in shown]
    over = [f"silence expired: {line}" for line in expired(report)]
    return _bounded(lines, [*map(_plain, (*rest, *over)), _plain(counts(report))])


def _alike(bad: list[Finding]) -> list[list[Finding]]:
    """Findings of which the same is said, so that one cause on eight GPUs takes one place of the line."""
    groups: dict[tuple[Status, str], list[Finding]] = {}
    for finding in bad:
        groups.setdefault((finding.status, finding.message), []).append(finding)
    return list(groups.values())


def _together(group: list[Finding]) -> str:
    """``gpu0-gpu7 fabric.state: the fabric is not started``; of several checks the first and how many more."""
    ids = list(dict.fromkeys(finding.id for finding in group))
    more = f" and {len(ids) - 1} more" if len(ids) > 1 else ""
    return f"{span(list(dict.fromkeys(f.subject for f in group)))} {ids[0]}{more}: {group[0].message}"


def _bounded(lines: list[str], rest: list[str]) -> str:
    room = SIZE_LIMIT - len(lines[0].encode()) - 40
    for number, line in enumerate(rest):
        room -= len(line.encode()) + 1
        if room < 0:
            lines.append(f"{len(rest) - number} more lines left out")
            break
        lines.append(line)
    return "\n".join(lines) + "\n"


def _data(findings: tuple[Finding, ...]) -> str:
    """``'label'=value[unit]``, each label once; the values of what is not well come first."""
    values: dict[str, str] = {}
    for finding in sorted(findings, key=lambda f: f.status in (Status.PASS, Status.SKIP)):
        if (value := _number(finding.value)) is None:
            continue
        label = clean(f"{finding.subject}.{finding.id}").translate(
            {ord("'"): None, ord("="): None, ord("|"): "/"}
        )
        values.setdefault(label, value + (finding.unit if finding.unit in _UNITS else ""))
    text = ""
    for label, value in values.items():
        one = f"'{label}'={value}"
        if len(text.encode()) + len(one.encode()) > _DATA_LIMIT:
            break
        text = f"{text} {one}" if text else one
    return text


def _number(value: object) -> str | None:
    """Digits, a point, a minus: the grammar knows no exponent, no infinity and no NaN."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if isinstance(value, int):
        return str(value) if abs(value) < 10**30 else None
    if not math.isfinite(value) or abs(value) >= 10**30:
        return None
    return f"{value:.6f}".rstrip("0").rstrip(".")


def _silence(finding: Finding) -> str:
    return "" if finding.silence is None else f" [{finding.silence}]"


def _plain(text: str) -> str:
    return clean(text).replace("|", "/")
