"""JSON lines for fleets: one line per finding, then one line with the verdict."""

from __future__ import annotations

import json

from checks.model import Report
from checks.report import Look
from checks.report.jsondoc import finite


def render(report: Report, look: Look) -> str:
    whole = finite(report.as_dict())
    findings = whole.pop("findings")
    head = {key: whole[key] for key in ("schema", "command", "evidence")}
    return "".join(
        json.dumps(line, allow_nan=False) + "\n"
        for line in [*({**head, **finding} for finding in findings), whole]
    )
