"""What went wrong in a compile, in one line of its make.log. Pure."""

from __future__ import annotations

import re


def first_error(log: str) -> str:
    """The first line of a make.log that says what is wrong: the compiler's, else make's, else the last."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    for pattern in (
        r":\d+:\d+: (?:fatal )?error: |Segmentation fault|internal compiler error",
        r"\*\*\* |ERROR: modpost",
    ):
        for line in lines:
            if re.search(pattern, line):
                return re.sub(r"^\S*/build/", "", line)
    return lines[-1] if lines else "make.log is empty"
