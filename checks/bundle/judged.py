"""``_probe judged FILE``: what the record that a bundle has just made says, in words.

The machine was looked at a moment ago, so the report is live; whoever opens the bundle replays the record instead.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from checks import record as records
from checks.errors import BadInput
from checks.gpus.report import judge_record
from checks.report import render


def main(args: Sequence[str]) -> int:
    """Prints the table, green lines too, and returns the exit code of the verdict."""
    if len(args) != 1:
        raise BadInput("_probe judged needs the file of a record")
    report = judge_record(records.load(Path(args[0])), None, replayed=False, name="the record")
    sys.stdout.write(render(report, "table", verbose=True))
    return report.exit_code()
