"""The reports of gates: read, and told in one line when green, with every reason when red."""

from __future__ import annotations

import json
from typing import Any

HEADLINES = {
    "flags": "flags.parser",
    "drafter": "drafter.outlook",
    "fit": "fit.memory",
    "load": "load.compute",
    "nccl": "nccl.busbw",
}
"""By gate, the finding that says most when all is well."""


_MOST_KEPT = 40
"""Findings of one report in the journal; a storm of one fault says no more with the next hundred."""


def kept_findings(report: dict[str, Any]) -> list[dict[str, Any]]:
    """The findings that were not pass, for the journal: the worst first, with their numbers."""
    findings = [one for one in report.get("findings") or () if isinstance(one, dict)]
    worst = [one for status in ("fail", "unknown", "warn") for one in findings if one.get("status") == status]
    return [{name: value for name, value in one.items() if value is not None} for one in worst[:_MOST_KEPT]]


def report_of(done: Any) -> dict[str, Any]:
    """The gate's report. What is no report is could-not-check, never green."""
    try:
        report = json.loads(done.stdout)
        if report.get("schema") != "provcheck/1":
            raise ValueError("no provcheck report")
    except (ValueError, AttributeError):
        return unknown(
            " / ".join(done.error_text.splitlines()[-3:]) or f"exit {done.rc} without a report", done.rc
        )
    return {**report, "code": done.rc}


def unknown(why: str, code: int = 3) -> dict[str, Any]:
    finding = {"status": "unknown", "id": "gate", "subject": "host", "message": why}
    return {"verdict": "unknown", "findings": [finding], "code": code}


def green(report: dict[str, Any]) -> bool:
    return report["verdict"] in ("pass", "warn") and report["code"] == 0


def shown_verdict(report: dict[str, Any]) -> str:
    verdict = str(report["verdict"])
    return f"REPLAYED ({verdict})" if report.get("evidence") == "replayed" else verdict


def line_of(report: dict[str, Any], gate: str) -> str:
    """What it saw, in one line: what is not well first, else the finding that says most."""
    findings = [one for one in report.get("findings", ()) if isinstance(one, dict)]
    worst = [one for status in ("fail", "unknown", "warn") for one in findings if one.get("status") == status]
    silenced = [
        f"{one.get('id')} silenced by {one['silence']['owner']}" for one in worst if one.get("silence")
    ]
    if worst:
        shown = [
            f"{one.get('id')} {one.get('subject')}: {one.get('message')}"
            for one in worst
            if not one.get("silence")
        ]
        more = f"; and {len(shown) - 2} more" if len(shown) > 2 else ""
        return " ".join(("; ".join([*shown[:2], *silenced]) + more).split())
    head = next((one for one in findings if one.get("id") == HEADLINES.get(gate)), None)
    count = sum(one.get("status") == "pass" for one in findings)
    return " ".join(str(head["message"]).split()) if head else f"{count} checks pass"


def red_text(name: str, report: dict[str, Any], gate: str | None = None, again: str | None = None) -> str:
    """Every reason with its cause and what to do next. ``again``: the command that looks once more."""
    what = f"{gate}: {report['verdict']}" if gate else report["verdict"]
    lines = [f"the gate of {name} is red ({what}); what runs is left as it is"]
    for finding in report["findings"]:
        if finding.get("status") in ("fail", "unknown") and not finding.get("silence"):
            lines.append(f"  {finding['status']}  {finding['id']} {finding['subject']}: {finding['message']}")
            lines += [f"        {key}: {finding[key]}" for key in ("cause", "fix") if finding.get(key)]
    if again is not None:
        lines.append(f"        again, in the guest: {again}")
    return "\n".join(lines)
