"""A file for node_exporter's textfile collector; ``--output`` writes it whole, as the collector needs it."""

from __future__ import annotations

from collections.abc import Iterator

from checks.model import Report, Status
from checks.report.text import clean


def render(report: Report, *, strict: bool, color: bool) -> str:
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
            for finding in report.findings:
                name = [command, clean(finding.id), clean(finding.subject)]
                silenced = "yes" if finding.silence is not None else "no"
                findings.add_metric([*name, finding.status.value, silenced], 1.0)
                if isinstance(finding.value, (int, float)) and not isinstance(finding.value, bool):
                    values.add_metric([*name, clean(finding.unit or "")], float(finding.value))
            yield findings
            yield values

    registry = CollectorRegistry()
    registry.register(Findings())
    return generate_latest(registry).decode()
