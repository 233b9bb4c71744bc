"""The form for a person: the verdict, then per subject what is not well with cause and fix, then what is.

What is green takes one line for all subjects that are alike, unless it is a measurement, or ``verbose`` asks.
Plain text and a few colour codes: nothing is imported for it, and nothing in a message is markup.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping

from checks.model import Finding, Report, Status
from checks.report import Look
from checks.report.text import addresses, brief, clean, counts, expired, needs_root, span, verdict

_STYLE = {
    Status.PASS: "32",
    Status.WARN: "33",
    Status.FAIL: "1;31",
    Status.UNKNOWN: "35",
    Status.SKIP: "2",
}
_GREEN = (Status.PASS, Status.SKIP)
_STATUS_COLUMN = 9
_SILENCED = "silenced"
_FEW = 4
_PASSIVE = "gpus"
"""Its values are states, by the hundred; those of the other commands are what one measured for."""


def render(report: Report, look: Look) -> str:
    lines = [_headline(report, look)]
    grouped = _by_subject(report.findings)
    many = {} if look.verbose else _many(report)
    quiet: dict[str, list[Finding]] = {}
    seen: dict[tuple[str, str | None, str | None], str] = {}
    places = addresses(report)
    for subject, findings in grouped.items():
        shown = [
            finding
            for finding in findings
            if look.verbose or (_said(finding, report) and not (_measured(finding) and finding.id in many))
        ]
        quiet[subject] = [finding for finding in findings if finding not in shown]
        if shown:
            lines += ["", _paint(_heading(subject, places), "1", look)]
        for names, finding in _merged(shown):
            lines += _finding(names, finding, look, seen)
    lines += ["", *_ranges(many, look)] if many else []
    lines += ["", *_condensed(quiet, look)] if any(quiet.values()) else []
    lines += _silences(report)
    unseen = brief(sorted({clean(f.id) for f in report.findings if needs_root(f)}))
    if unseen:
        said = f"not seen without root: {unseen}; run it as root to have these judged"
        if look.root:
            said = f"not seen though run as root: {unseen}; a container has fewer rights than its host: look there"
        lines += ["", *_wrap(said, 0, look)]
    return "\n".join(lines) + "\n"


def _headline(report: Report, look: Look) -> str:
    strictly = (
        ", --strict: a warning counts as a failure" if look.strict and report.verdict is Status.WARN else ""
    )
    host = report.facts.get("host")
    where = f" on {clean(host)}" if isinstance(host, str) and host else ""
    text = f"{verdict(report)}: {counts(report)} (provcheck {clean(report.command)}{where}){strictly}"
    return _paint(text, _STYLE[report.verdict], look)


def _heading(subject: str, places: Mapping[str, str]) -> str:
    """``gpu0  0000:3b:00.0``: the number moves when a board is gone, its place on the bus does not."""
    return f"{subject}  {places[subject]}" if subject in places else subject


def _said(finding: Finding, report: Report) -> bool:
    if finding.status not in _GREEN:
        return True
    return _measured(finding) and (finding.command or report.command) != _PASSIVE


def _measured(finding: Finding) -> bool:
    number = isinstance(finding.value, (int, float)) and not isinstance(finding.value, bool)
    return finding.status is Status.PASS and number


def _many(report: Report) -> dict[str, list[Finding]]:
    """Good measurements of more subjects than one wants to read: by id, the least first."""
    by: dict[str, list[Finding]] = {}
    for finding in report.findings:
        if _measured(finding) and _said(finding, report):
            by.setdefault(finding.id, []).append(finding)
    return {name: sorted(each, key=lambda f: f.value) for name, each in by.items() if len(each) > _FEW}


def _ranges(many: dict[str, list[Finding]], look: Look) -> Iterator[str]:
    for name, findings in many.items():
        least, most = findings[0], findings[-1]
        unit = f" {clean(most.unit)}" if most.unit else ""
        said = f"{least.value:g}{unit} each"
        if least.value != most.value:
            said = f"{least.value:g} to {most.value:g}{unit}, the least at {clean(least.subject)}"
        first, *rest = _wrap(f"{clean(name)}  {len(findings)} pass: {said}", 2 + _STATUS_COLUMN, look)
        yield f"  {_paint('pass'.ljust(_STATUS_COLUMN), _STYLE[Status.PASS], look)}{first.lstrip()}"
        yield from rest


def _by_subject(findings: Iterable[Finding]) -> dict[str, list[Finding]]:
    grouped: dict[str, list[Finding]] = {}
    for finding in findings:
        grouped.setdefault(clean(finding.subject), []).append(finding)
    return grouped


def _merged(findings: Iterable[Finding]) -> list[tuple[str, Finding]]:
    """Ids that say the same of one subject share a line, as all that is unknown of a lost GPU does."""
    same: dict[object, list[Finding]] = {}
    for finding in findings:
        key = (finding.status, finding.message, finding.cause, finding.fix, finding.silence)
        same.setdefault(key if finding.status not in _GREEN else id(finding), []).append(finding)
    return [(", ".join(clean(one.id) for one in alike), alike[0]) for alike in same.values()]


def _finding(
    names: str, finding: Finding, look: Look, seen: dict[tuple[str, str | None, str | None], str]
) -> Iterator[str]:
    status, style, hushed = finding.status.value, _STYLE[finding.status], ""
    if finding.silence is not None:
        status, style, hushed = _SILENCED, _STYLE[Status.SKIP], f"{finding.status.value}: "
    first, *rest = _wrap(f"{names}  {hushed}{clean(finding.message)}", 2 + _STATUS_COLUMN, look)
    yield f"  {_paint(status.ljust(_STATUS_COLUMN), style, look)}{first.lstrip()}"
    yield from rest
    if finding.status in _GREEN or not (finding.cause or finding.fix):
        return
    key = (names, finding.cause, finding.fix)
    if key in seen:
        yield " " * (2 + _STATUS_COLUMN) + f"cause and fix: as for {seen[key]}"
        return
    seen[key] = clean(finding.subject)
    for word, text in (("cause", finding.cause), ("fix", finding.fix)):
        if text:
            yield from _wrap(f"{word}: {clean(text)}", 2 + _STATUS_COLUMN, look)


def _condensed(quiet: dict[str, list[Finding]], look: Look) -> Iterator[str]:
    """Subjects of which the same can be said share a line: ``gpu0-gpu6  27 pass, 3 skip``."""
    alike: dict[tuple[str, str], list[str]] = {}
    for subject, findings in quiet.items():
        if findings:
            kind = re.sub(r"[\d:-]+.*", "", subject).strip() or subject
            alike.setdefault((kind, counts(findings)), []).append(subject)
    for (_, said), subjects in alike.items():
        yield from _wrap(f"{span(subjects)}  {said}{' each' if len(subjects) > 1 else ''}", 0, look)
    yield _paint("(--verbose lists them)", _STYLE[Status.SKIP], look)


def _silences(report: Report) -> Iterator[str]:
    for finding in report.findings:
        if finding.silence is not None:
            yield clean(f"silenced: {finding.subject} {finding.id}, {finding.silence}")
    yield from (f"silence expired: {line}" for line in expired(report))


def _wrap(text: str, indent: int, look: Look) -> list[str]:
    """Lines of the width asked for; a path or a command is never broken, so that it can be copied."""
    room = max(look.width, 40)
    return textwrap.wrap(
        text,
        room,
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent + 2 if indent else 2),
        break_long_words=False,
        break_on_hyphens=False,
    ) or [""]


def _paint(text: str, code: str, look: Look) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if look.color else text
