"""The form for a person: one line per finding, grouped by subject, cause and fix under what is not well."""

from __future__ import annotations

import io
import os
import shutil

from checks.model import Finding, Report, Status
from checks.report.text import clean, counts, verdict

_STYLE = {
    Status.PASS: "green",
    Status.WARN: "yellow",
    Status.FAIL: "bold red",
    Status.UNKNOWN: "magenta",
    Status.SKIP: "dim",
}


def render(report: Report, *, strict: bool, color: bool) -> str:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    out = io.StringIO()
    console = Console(
        file=out,
        width=max(60, shutil.get_terminal_size((110, 24)).columns) if color else 110,
        force_terminal=color,
        no_color="NO_COLOR" in os.environ,
        highlight=False,
    )
    table = Table(box=None, show_header=False, padding=(0, 1), pad_edge=False)
    table.add_column("subject", no_wrap=True)
    table.add_column("status", no_wrap=True)
    table.add_column("id", no_wrap=True)
    table.add_column("message", overflow="fold")
    last = None
    for finding in report.findings:
        subject = clean(finding.subject)
        table.add_row(
            Text("" if subject == last else subject, "bold"),
            Text(finding.status.value, _STYLE[finding.status]),
            Text(clean(finding.id)),
            Text(_message(finding)),
        )
        last = subject
    console.print(table)
    for finding in report.findings:
        if finding.silence is not None:
            console.print(
                Text(clean(f"silenced: {finding.subject} {finding.id}, {finding.silence}")), soft_wrap=True
            )
    word = verdict(report)
    strictly = ", --strict: a warning counts as a failure" if strict and report.verdict is Status.WARN else ""
    console.print(Text(f"{word}: {counts(report)}{strictly}", _STYLE[report.verdict]))
    return out.getvalue()


def _message(finding: Finding) -> str:
    lines = [clean(finding.message)]
    if finding.status not in (Status.PASS, Status.SKIP):
        advice = (("cause", finding.cause), ("fix", finding.fix))
        lines += [f"{word}: {clean(text)}" for word, text in advice if text]
    return "\n".join(lines)
