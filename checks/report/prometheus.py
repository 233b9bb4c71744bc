"""A file for node_exporter's textfile collector; ``--output`` writes it whole, as the collector needs it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress

from checks.model import Finding, Report, Status
from checks.report import Look
from checks.report.text import clean


def render(report: Report, look: Look) -> str:
    from prometheus_client.core import GaugeMetricFamily, Metric
    from prometheus_client.exposition import generate_latest
    from prometheus_client.registry import Collector, CollectorRegistry

    command, evidence = clean(report.command), clean(report.evidence)

    class Findings(Collector):
        def collect(self) -> Iterator[Metric]:
            verdict = GaugeMetricFamily(
                "provcheck_verdict",
                "1 for the verdict of the last run.",
                labels=["command", "evidence", "verdict"],
            )
            for status in (Status.PASS, Status.WARN, Status.FAIL, Status.UNKNOWN):
                verdict.add_metric([command, evidence, status.value], float(report.verdict is status))
            yield verdict
            findings = GaugeMetricFamily(
                "provcheck_finding",
                "1 for each finding of the last run, with its status.",
                labels=["command", "id", "subject", "status", "silenced"],
            )
            values = GaugeMetricFamily(
                "provcheck_value", "What a finding measured.", labels=["command", "id", "subject", "unit"]
            )
            for labels in dict.fromkeys(_labels(command, finding) for finding in report.findings):
                findings.add_metric(labels, 1.0)
            for labels, value in _values(command, report.findings).items():
                values.add_metric(labels, value)
            yield findings
            yield values

    registry = CollectorRegistry()
    registry.register(Findings())
    return generate_latest(registry).decode()


def _labels(command: str, finding: Finding) -> tuple[str, ...]:
    silenced = "yes" if finding.silence is not None else "no"
    return (*_name(command, finding), finding.status.value, silenced)


def _name(command: str, finding: Finding) -> tuple[str, str, str]:
    return clean(finding.command or command), clean(finding.id), clean(finding.subject)


def _values(command: str, findings: Iterable[Finding]) -> dict[tuple[str, ...], float]:
    """The collector refuses a file in which one series stands twice: of two, that of what is not well holds."""
    values: dict[tuple[str, ...], float] = {}
    for finding in sorted(findings, key=lambda f: f.status in (Status.PASS, Status.SKIP)):
        if isinstance(finding.value, (int, float)) and not isinstance(finding.value, bool):
            with suppress(OverflowError):
                values.setdefault((*_name(command, finding), clean(finding.unit or "")), float(finding.value))
    return values
