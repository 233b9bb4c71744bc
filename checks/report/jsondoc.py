"""The stable JSON document, schema ``provcheck/1``."""

from __future__ import annotations

import json
import math
from typing import Any

from checks.model import Report
from checks.report import Look


def render(report: Report, look: Look) -> str:
    return json.dumps(finite(report.as_dict()), indent=2, allow_nan=False) + "\n"


def finite(value: Any) -> Any:
    """The same, with null for what JSON has no number for: NaN and the infinities."""
    if isinstance(value, dict):
        return {key: finite(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
