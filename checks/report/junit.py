"""JUnit XML for CI: a finding is a test case; fail is a failure, unknown an error, skip a skip."""

from __future__ import annotations

from xml.etree import ElementTree

from checks.model import Finding, Report, Status
from checks.report import Look
from checks.report.text import clean, verdict


def render(report: Report, look: Look) -> str:
    failing = {Status.FAIL, Status.WARN} if look.strict else {Status.FAIL}
    seen = [finding.status for finding in report.findings if finding.silence is None]
    suite = ElementTree.Element(
        "testsuite",
        name=f"provcheck {clean(report.command)}",
        tests=str(len(report.findings)),
        failures=str(sum(status in failing for status in seen)),
        errors=str(seen.count(Status.UNKNOWN)),
        skipped=str(sum(f.status is Status.SKIP or f.silence is not None for f in report.findings)),
    )
    properties = ElementTree.SubElement(suite, "properties")
    ElementTree.SubElement(properties, "property", name="verdict", value=verdict(report))
    ElementTree.SubElement(properties, "property", name="evidence", value=clean(report.evidence))
    for finding in report.findings:
        _case(suite, report, finding, failing)
    ElementTree.indent(suite)
    return "<?xml version='1.0' encoding='utf-8'?>\n" + ElementTree.tostring(suite, encoding="unicode") + "\n"


def _case(suite: ElementTree.Element, report: Report, finding: Finding, failing: set[Status]) -> None:
    name = f"{clean(finding.id)} {clean(finding.subject)}"
    command = clean(finding.command or report.command)
    case = ElementTree.SubElement(suite, "testcase", classname=f"provcheck.{command}", name=name)
    message = clean(finding.message)
    if finding.silence is not None:
        ElementTree.SubElement(case, "skipped", message=clean(f"{message} [{finding.silence}]"))
        return
    kind = {Status.UNKNOWN: "error", Status.SKIP: "skipped"}.get(finding.status)
    if finding.status in failing:
        kind = "failure"
    if kind is None:
        ElementTree.SubElement(case, "system-out").text = f"{finding.status.value}: {message}"
        return
    outcome = ElementTree.SubElement(case, kind, message=message)
    if finding.status is not Status.SKIP:
        outcome.set("type", finding.status.value)
        advice = [("cause", finding.cause), ("fix", finding.fix)]
        outcome.text = "\n".join(f"{word}: {clean(text)}" for word, text in advice if text)
