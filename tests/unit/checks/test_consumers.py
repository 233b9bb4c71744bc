"""What programs read is written by their grammars, whatever a finding holds."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from prometheus_client.parser import text_string_to_metric_families

from checks.files import write_whole
from checks.model import Finding, Report, Status
from checks.report import render
from checks.report.nagios import SIZE_LIMIT

NASTY = "a\"b\\c\nd|e='f' <&> ]]> \x1b[31m"
VALUES: tuple[Any, ...] = (
    1.5,
    7,
    -3,
    0.00001,
    1e25,
    1e300,
    float("nan"),
    float("inf"),
    10**400,
    True,
    "x",
    None,
)
FULL = Report(
    "gpus",
    tuple(
        Finding("gpu.ecc", status, f"gpu{n}{NASTY}", NASTY, value=value, unit=unit, cause=NASTY)
        for status in Status
        for n, value in enumerate(VALUES)
        for unit in ("s", NASTY)
    ),
    facts={"host": "box"},
)
LARGE = Report(
    "gpus",
    tuple(
        Finding(f"gpu.check_number_{n}", Status.FAIL, f"gpu{gpu}", "x" * 200, value=n * 1.5)
        for gpu in range(8)
        for n in range(30)
    ),
)
ONE = re.compile(r"'[^'=|]+'=-?[0-9]+(\.[0-9]+)?(s|us|ms|%|B|KB|MB|GB|TB|c)?(;[^; ]*){0,4}")


@pytest.mark.parametrize("report", [FULL, LARGE], ids=["full", "large"])
def test_perfdata_keeps_to_the_grammar_of_the_plugin_guidelines(report: Report) -> None:
    text = render(report, "nagios")
    first, *rest = text.splitlines()
    said, bar, data = first.partition(" | ")
    assert bar
    for one in re.split(r" (?=')", data):
        assert ONE.fullmatch(one), one
    assert not any("|" in line for line in (said, *rest))
    labels = re.findall(r"'([^']+)'=", data)
    assert len(labels) == len(set(labels))
    assert len(text.encode()) <= SIZE_LIMIT


def test_a_nagios_line_that_is_too_long_says_what_it_left_out() -> None:
    assert "more lines left out" in render(LARGE, "nagios")
    assert "left out" not in render(Report("gpus", LARGE.findings[:3]), "nagios")


def test_the_worst_comes_first_and_80_characters_are_enough() -> None:
    findings = (
        Finding("gpu.clocks", Status.WARN, "gpu0", "slow"),
        Finding("gpu.xid", Status.UNKNOWN, "host", "no log"),
        Finding("gpu.lost", Status.FAIL, "gpu3", "GPU is lost"),
    )
    assert render(Report("gpus", findings), "nagios")[:80].startswith(
        "PROVCHECK CRITICAL: gpu3 gpu.lost: GPU is lost"
    )
    assert render(Report("gpus", findings[:1]), "nagios", strict=True).startswith("PROVCHECK CRITICAL: gpu0")


def test_prometheus_text_has_each_series_once_and_help_and_type_before_it() -> None:
    text = render(FULL, "prometheus")
    series = [line.rpartition(" ")[0] for line in text.splitlines() if not line.startswith("#")]
    assert len(series) == len(set(series))
    declared: set[str] = set()
    for line in text.splitlines():
        if line.startswith("# TYPE"):
            assert line.split()[3] == "gauge"
            declared.add(line.split()[2])
        elif not line.startswith("#"):
            assert line.split("{")[0] in declared
    names = {family.name for family in text_string_to_metric_families(text)}
    assert names == {"provcheck_verdict", "provcheck_finding", "provcheck_value"}


def test_of_two_values_of_one_name_that_of_what_is_not_well_is_told() -> None:
    twice = (
        Finding("gpu.ecc", Status.PASS, "gpu0", "m", value=1, unit="s"),
        Finding("gpu.ecc", Status.FAIL, "gpu0", "m", value=7, unit="s"),
    )
    assert "'gpu0.gpu.ecc'=7s\n" in render(Report("gpus", twice), "nagios")
    (line,) = [
        x
        for x in render(Report("gpus", twice), "prometheus").splitlines()
        if x.startswith("provcheck_value{")
    ]
    assert line.endswith(" 7.0")


def test_metrics_of_a_joined_report_carry_the_command_that_found_them() -> None:
    finding = Finding("load.h2d", Status.PASS, "gpu0", "said", value=1.0, command="load")
    assert 'provcheck_value{command="load"' in render(Report("all", (finding,)), "prometheus")
    assert 'classname="provcheck.load"' in render(Report("all", (finding,)), "junit")


def test_junit_has_the_elements_that_ci_servers_read() -> None:
    """After the junit-10.xsd of Jenkins' xUnit plugin: names, counts, at most one outcome per case."""
    suite = ElementTree.fromstring(render(FULL, "junit"))
    assert suite.tag == "testsuite"
    assert {"name", "tests", "failures", "errors", "skipped"} <= set(suite.keys())
    cases = suite.findall("testcase")
    assert [child.tag for child in suite] == ["properties", *["testcase"] * len(cases)]
    assert len(cases) == int(suite.attrib["tests"])
    for case in cases:
        assert case.get("name")
        assert case.get("classname") == "provcheck.gpus"
        assert {child.tag for child in case} <= {"failure", "error", "skipped", "system-out"}
        assert len(case) == 1
    for tag, attribute in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        assert len(suite.findall(f"testcase/{tag}")) == int(suite.attrib[attribute])


def test_the_collector_of_another_user_can_read_the_file_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        write_whole(tmp_path / "provcheck.prom", b"x 1\n")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "provcheck.prom").stat().st_mode) == 0o644


def test_the_file_that_is_being_written_is_none_that_the_collector_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """node_exporter reads *.prom: a temp file of that name would be read half-written."""
    seen: list[str] = []
    real = os.fsync

    def spy(handle: int) -> None:
        seen.extend(path.name for path in tmp_path.iterdir())
        real(handle)

    monkeypatch.setattr("os.fsync", spy)
    write_whole(tmp_path / "provcheck.prom", b"x 1\n")
    assert seen[0] != "provcheck.prom"
    assert not seen[0].endswith(".prom")
