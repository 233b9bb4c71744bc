"""The stable JSON document, schema ``provcheck/1``."""

from __future__ import annotations

import json

from checks.model import Report


def render(report: Report, *, strict: bool, color: bool) -> str:
    return json.dumps(report.as_dict(), indent=2) + "\n"
