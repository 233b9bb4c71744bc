"""Text from a machine is data: names and messages may hold control characters, which reach no terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from checks.model import Finding, Report, Status

_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


def clean(text: object) -> str:
    """The text on one line; control characters, bidi overrides and lone surrogates are spelled out."""
    one_line = str(text).replace("\n", " ").replace("\t", " ")
    return _UNSAFE.sub(lambda match: f"\\x{ord(match[0]):02x}", one_line)


_ORDER = (Status.FAIL, Status.UNKNOWN, Status.WARN, Status.PASS, Status.SKIP)


def counts(findings: Report | Iterable[Finding]) -> str:
    """``1 fail, 8 pass, 2 skip``, worst first; what is silenced is counted as that: ``1 fail silenced``."""
    seen = list(findings.findings if isinstance(findings, Report) else findings)
    said = []
    for hushed, word in ((False, ""), (True, " silenced")):
        of = [finding.status for finding in seen if (finding.silence is not None) is hushed]
        said += [f"{of.count(status)} {status.value}{word}" for status in _ORDER if status in of]
    return ", ".join(said)


def verdict(report: Report) -> str:
    """``pass``, or ``REPLAYED (pass)`` when the evidence is a record."""
    word = report.verdict.value
    return f"REPLAYED ({word})" if report.evidence == "replayed" else word


def addresses(report: Report) -> dict[str, str]:
    """Where each GPU is on the PCI bus, by subject, from the report's facts or, of several reports joined, theirs."""
    parts = [report.facts, *(part for part in report.facts.values() if isinstance(part, dict))]
    found: dict[str, str] = {}
    for part in parts:
        rows = part.get("gpus")
        for row in rows if isinstance(rows, list) else ():
            if isinstance(row, dict) and isinstance(row.get("pci"), str):
                found.setdefault(f"gpu{row.get('index')}", clean(row["pci"]))
    return found


EXPIRED = "expired_silences"
"""The fact that holds what is not well again because its silence is over."""


def expired(report: Report) -> list[str]:
    """The lines of that fact."""
    lines = report.facts.get(EXPIRED)
    return [clean(line) for line in lines] if isinstance(lines, list) else []


_ROOT = re.compile(
    r"\b(root|permission|privileges?|EPERM|EACCES|NoPermission|CAP_SYS_\w+|not permitted|Insufficient Permissions)\b",
    re.IGNORECASE,
)


_NOT_HERE = ("node.reachable", "node.part")
"""Findings that quote another program: what was denied to that one is no right that this one lacks."""


def needs_root(finding: Finding) -> bool:
    """Whether it could not be looked at for want of rights, by what the finding itself says."""
    if finding.id in _NOT_HERE:
        return False
    said = " ".join(filter(None, (finding.message, finding.cause, finding.fix)))
    return finding.status is Status.UNKNOWN and _ROOT.search(said) is not None


def brief(names: Sequence[str], most: int = 12) -> str:
    """``a, b, c and 4 more``; empty for none."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def span(subjects: list[str]) -> str:
    """``gpu0-gpu6``; of what is not numbered through, the first few and how many there are."""
    found = [re.fullmatch(r"(\D+)(\d+)", subject) for subject in subjects]
    if len({match[1] for match in found if match}) != 1 or None in found:
        return brief(subjects, 4)
    runs: list[list[int]] = []
    for number in sorted(int(match[2]) for match in found if match):
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    stem = next(match[1] for match in found if match)
    ends = (dict.fromkeys((run[0], run[-1])) for run in runs)
    return brief(["-".join(f"{stem}{number}" for number in end) for end in ends])
