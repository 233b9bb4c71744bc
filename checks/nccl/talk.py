"""What a probe and its parent say to each other: one JSON object per line, both ways."""

from __future__ import annotations

import json
import sys
from typing import Any

from checks.errors import BadInput


def say(**line: Any) -> None:
    """One line to the parent, at once: what a probe said before it hung is known."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def hear() -> dict[str, Any]:
    """The next line of the parent. Raises BadInput when it is none: somebody called the probe by hand."""
    try:
        line = json.loads(sys.stdin.readline())
    except ValueError:
        line = None
    if not isinstance(line, dict):
        raise BadInput("this probe is started by 'provcheck nccl', which tells it what to do")
    return line
