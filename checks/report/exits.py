"""Exit codes, in three dialects.

provcheck  0 pass (warnings allowed)   1 fail   2 usage   3 could not check
nagios     0 OK   1 WARNING   2 CRITICAL   3 UNKNOWN          (monitoring-plugins guidelines)
npd        0 OK   1 NonOK     2 Unknown                       (node-problem-detector custom plugins)
"""

from __future__ import annotations

from checks.model import EXIT_UNKNOWN, Report, Status

STYLES = ("provcheck", "nagios", "npd")

_NAGIOS = {Status.PASS: 0, Status.WARN: 1, Status.FAIL: 2, Status.UNKNOWN: 3}
_NPD = {Status.PASS: 0, Status.WARN: 0, Status.FAIL: 1, Status.UNKNOWN: 2}


UNKNOWN_CODE = {"provcheck": EXIT_UNKNOWN, "nagios": _NAGIOS[Status.UNKNOWN], "npd": _NPD[Status.UNKNOWN]}
"""What a run ends with that could not tell anybody what it found, by style."""


def exit_code(report: Report, style: str, *, strict: bool = False) -> int:
    """The exit code of a report; ``strict`` makes a warning a failure."""
    verdict = Status.FAIL if strict and report.verdict is Status.WARN else report.verdict
    if style == "nagios":
        return _NAGIOS[verdict]
    if style == "npd":
        return _NPD[verdict]
    return report.exit_code(strict=strict)
