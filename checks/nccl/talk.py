"""What a probe and its parent say to each other: one JSON object per line, both ways."""

from __future__ import annotations

import ctypes
import json
import signal
import sys
from typing import Any

from checks.errors import BadInput
from checks.quiet import keep_quiet

PR_SET_PDEATHSIG = 1


def say(**line: Any) -> None:
    """One line to the parent, at once: what a probe said before it hung is known."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def begin() -> dict[str, Any]:
    """The first line of the parent. From here on this process dies with the parent, however that ends.

    A rank that hangs in the driver notices no closed pipe: the kernel must end it (prctl, PR_SET_PDEATHSIG).
    And the driver's library makes no device node that is missing.
    """
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    keep_quiet()
    return hear()


def hear() -> dict[str, Any]:
    """The next line of the parent. Raises BadInput when it is none: somebody called the probe by hand."""
    try:
        line = json.loads(sys.stdin.readline())
    except ValueError:
        line = None
    if not isinstance(line, dict):
        raise BadInput("this probe is started by 'provcheck nccl', which tells it what to do")
    return line
