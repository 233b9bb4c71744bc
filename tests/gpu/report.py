"""Reads a provcheck report of a session: what was found, and whether it is what the session expects.

usage: report.py REPORT.json [verdict=STATUS[,STATUS...]] [ID[|ID...]=STATUS[,STATUS...] ...]

One of the ids must have one of the statuses; an ID may end in ``*``. The last line is the summary; exit 1 when an
expectation is not met, 2 when it is no report. Only the standard library: it runs wherever the session does."""

from __future__ import annotations

import json
import sys
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any


def unmet(report: dict[str, Any], expectations: list[str]) -> list[str]:
    """The expectations that the report does not meet."""
    missing = []
    for expectation in expectations:
        name, _, wanted = expectation.partition("=")
        statuses = wanted.split(",")
        if name == "verdict":
            met = report["verdict"] in statuses
        else:
            met = any(
                any(fnmatchcase(finding["id"], id) for id in name.split("|"))
                and finding["status"] in statuses
                for finding in report["findings"]
            )
        if not met:
            missing.append(expectation)
    return missing


def main(path: str, *expectations: str) -> int:
    try:
        report = json.loads(Path(path).read_text())
        findings = [(f["status"], f["id"], f["subject"], f["message"]) for f in report["findings"]]
        missing = unmet(report, list(expectations))
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"no report: {error!r}")  # noqa: T201
        return 2
    for finding in sorted(findings):
        print("{:8} {} {}: {}".format(*finding))  # noqa: T201
    loud = sorted({f"{id}={status}" for status, id, _, _ in findings if status not in ("pass", "skip")})
    text = f"verdict={report['verdict']} of {len(findings)} findings; " + (" ".join(loud) or "nothing amiss")
    print((f"MISSING {' '.join(missing)}; " if missing else "") + text)  # noqa: T201
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
