"""Renderers: one small module each, report in, text out. ``render`` picks one by its ``--format`` name."""

from __future__ import annotations

import importlib
from typing import Protocol

from checks.model import Report

FORMATS = {
    "table": "checks.report.table",
    "json": "checks.report.jsondoc",
    "jsonl": "checks.report.jsonlines",
    "junit": "checks.report.junit",
    "prometheus": "checks.report.prometheus",
    "nagios": "checks.report.nagios",
}


class Renderer(Protocol):
    """A renderer module. ``strict``: warn counts as fail. ``color``: the text goes to a terminal."""

    def render(self, report: Report, *, strict: bool, color: bool) -> str: ...


def render(report: Report, form: str, *, strict: bool = False, color: bool = False) -> str:
    """The report as text in one of FORMATS, with a line end at its end."""
    renderer: Renderer = importlib.import_module(FORMATS[form])
    return renderer.render(report, strict=strict, color=color)
