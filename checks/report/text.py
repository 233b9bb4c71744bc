"""Text from a machine is data: names and messages may hold control characters, which reach no terminal."""

from __future__ import annotations

import re

from checks.model import Report, Status

_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


def clean(text: object) -> str:
    """The text on one line; control characters, bidi overrides and lone surrogates are spelled out."""
    one_line = str(text).replace("\n", " ").replace("\t", " ")
    return _UNSAFE.sub(lambda match: f"\\x{ord(match[0]):02x}", one_line)


def counts(report: Report) -> str:
    """``1 fail, 8 pass, 2 skip``, worst first."""
    order = (Status.FAIL, Status.UNKNOWN, Status.WARN, Status.PASS, Status.SKIP)
    seen = [finding.status for finding in report.findings]
    return ", ".join(f"{seen.count(status)} {status.value}" for status in order if status in seen)


def verdict(report: Report) -> str:
    """``pass``, or ``REPLAYED (pass)`` when the evidence is a record."""
    word = report.verdict.value
    return f"REPLAYED ({word})" if report.evidence == "replayed" else word
