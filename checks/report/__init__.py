"""Renderers: one small module each, report in, text out. ``render`` picks one by its ``--format`` name."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Look:
    """How it is to look: ``strict`` counts warn as fail, ``color`` is for a terminal, ``verbose`` spells out what
    is green, ``width`` is in columns, ``root`` says that it was run as root.
    Of the forms for programs all heed ``strict`` and nagios ``verbose``.
    """

    strict: bool = False
    color: bool = False
    verbose: bool = False
    width: int = 110
    root: bool = False


class Renderer(Protocol):
    """A renderer module."""

    def render(self, report: Report, look: Look) -> str: ...


def render(
    report: Report,
    form: str,
    *,
    strict: bool = False,
    color: bool = False,
    verbose: bool = False,
    width: int = 110,
    root: bool = False,
) -> str:
    """The report as text in one of FORMATS, with a line end at its end."""
    renderer: Renderer = importlib.import_module(FORMATS[form])
    return renderer.render(report, Look(strict, color, verbose, width, root))
