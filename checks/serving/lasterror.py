"""Why an engine ended, in the one line of its log that says it best. Pure."""

from __future__ import annotations

import re

from checks.data.engine_errors import ERRORS
from checks.serving.redact import redacted

LONGEST = 300
_ERROR = re.compile(
    r"\b\w*(?:Error|Exception|SystemExit)\b|(?i:\b(?:error|fatal|panic|segfault|segmentation fault|out of memory)\b)"
)
# They tell that something was told above.
_ECHO = re.compile(r"root cause|see (?:the )?(?:stack|above|log)", re.I)
_STAMP = re.compile(r"^(?:\([\w.]+ pid=\d+\) )?(?:(?:ERROR|CRITICAL) [\d:., -]+(?:\[[^\]]*\] )?)?")


def last_error(log: str) -> str | None:
    """A line that the table of known errors has, else the last one that names an error, else the last line at all;
    without keys, at most 300 characters. None for an empty log."""
    lines = [line.rstrip() for line in log.splitlines() if line.strip()]
    telling = [line for line in lines if not _ECHO.search(line)]
    known = [line for line in telling if any(row.pattern.search(line) for row in ERRORS)]
    named, echoes = ([line for line in some if _ERROR.search(line)] for some in (telling, lines))
    for found in (known, named, echoes, lines):
        if found:
            line = found[-1].strip()
            return redacted(_STAMP.sub("", line).strip() or line)[:LONGEST]
    return None
