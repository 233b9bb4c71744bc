"""The stable JSON document, schema ``provcheck/1``."""

from __future__ import annotations

import json

from checks.model import Report
from checks.report import Look


def render(report: Report, look: Look) -> str:
    return json.dumps(report.as_dict(), indent=2) + "\n"
