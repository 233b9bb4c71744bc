"""Why an engine ended, in the one line of its log that says it best. Pure."""

from __future__ import annotations

import re

from checks.data.engine_errors import ERRORS
from checks.serving.live import redacted

LONGEST = 300
_ERROR = re.compile(
    r"(\b\w*(?:Error|Exception|Exit)\b|\berror\b|\bfatal\b|\bpanic|segfault|segmentation fault|out of memory)", re.I
)
# They tell that something was told above.
_ECHO = re.compile(r"root cause|see (?:the )?(?:stack|above|log)|Engine core initialization failed", re.I)
_STAMP = re.compile(r"^(?:\([\w.]+ pid=\d+\) )?(?:(?:ERROR|CRITICAL) [\d:. -]+(?:\[[^\]]*\] )?)?")


def last_error(log: str) -> str | None:
    """A line that the table of known errors has, else the last one that names an error, else the last line at all;
    without keys, at most 300 characters. None for an empty log."""
    lines = [line.rstrip() for line in log.splitlines() if line.strip()]
    telling = [line for line in lines if not _ECHO.search(line)]
    known = [line for line in telling if any(row.pattern.search(line) for row in ERRORS)]
    named = [line for line in telling if _ERROR.search(line)]
    for found in (known, named, lines):
        if found:
            line = found[-1].strip()
            return redacted(_STAMP.sub("", line).strip() or line)[:LONGEST]
    return None
