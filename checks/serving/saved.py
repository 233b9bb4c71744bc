"""Baselines in files: saved ones, and records or prefixes read as one."""

from __future__ import annotations

import json
from pathlib import Path

from checks.serving import baseline as baselines
from checks.serving import record
from checks.serving.baseline import Baseline
from checks.serving.evidence import gather
from checks.serving.report import baseline_of


def load(name: str) -> Baseline:
    """A saved baseline, or the numbers of a record or prefix. Raises BadInput when it is none of them."""
    path = Path(name)
    if path.is_file():
        data = record.read_object(path, 8 << 20)
        if data.get("schema") == baselines.SCHEMA:
            return baselines.from_json(data, name)
    return baseline_of(gather(record.load(name)), name)


def text_of(baseline: Baseline, taken: str) -> bytes:
    """A baseline as it stands in its file."""
    return (json.dumps(baselines.to_json(baseline, taken), indent=1, sort_keys=True) + "\n").encode()
