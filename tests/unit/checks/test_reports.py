"""Renderers, exit codes, silences and files: the same report in every form."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from prometheus_client.parser import text_string_to_metric_families

from checks.errors import BadInput
from checks.files import write_whole
from checks.model import Finding, Report, Silence, Status
from checks.report import FORMATS, render, silence
from checks.report.exits import STYLES, exit_code

NASTY = "a\"b\\c\nd|e='f' [bold]g[/] \x1b[31mred\x00 \u202e \ud800 <&> ]]>"


def finding(status: Status, identity: str = "gpu.ecc", **more: Any) -> Finding:
    return Finding(identity, status, more.pop("subject", "gpu0"), more.pop("message", "said"), **more)


ALL = Report(
    "gpus",
    tuple(
        finding(status, f"gpu.{status.value}", cause="why", fix="do this", value=1.5, unit="C")
        for status in Status
    ),
    facts={"host": "box"},
)


@pytest.mark.parametrize("form", FORMATS)
def test_every_form_shows_every_finding_passes_too(form: str) -> None:
    text = render(ALL, form, verbose=True)
    for status in Status:
        assert f"gpu.{status.value}" in text, status
    assert text.endswith("\n")


@pytest.mark.parametrize("form", FORMATS)
def test_every_form_says_that_the_evidence_is_replayed(form: str) -> None:
    live = render(ALL, form)
    replayed = render(Report(ALL.command, ALL.findings, "replayed", ALL.facts), form)
    assert "replayed" in replayed.lower()
    assert "replayed" not in live.lower()


@pytest.mark.parametrize("form", FORMATS)
def test_control_characters_reach_no_reader(form: str) -> None:
    hostile = finding(Status.FAIL, subject=f"gpu0{NASTY}", message=NASTY, cause=NASTY, fix=NASTY, unit=NASTY)
    text = render(Report(f"gpus{NASTY}", (hostile,)), form)
    text.encode("utf-8")
    assert not set(text) & set("\x1b\x00\u202e")


def test_the_table_shows_replayed_and_the_advice() -> None:
    text = render(Report("gpus", (finding(Status.PASS),), "replayed"), "table")
    assert "REPLAYED (pass)" in text
    assert "\x1b" not in text
    assert "cause: why" in render(ALL, "table")
    assert "\x1b[" in render(ALL, "table", color=True)


def test_json_is_the_contract() -> None:
    whole = json.loads(render(ALL, "json"))
    assert {"schema", "command", "evidence", "verdict", "findings", "facts"} == set(whole)
    assert (whole["schema"], whole["verdict"]) == ("provcheck/1", "fail")
    keys = {"id", "status", "subject", "value", "limit", "unit", "message", "cause", "fix", "owner"}
    assert keys <= set(whole["findings"][0])


def test_json_lines_are_one_per_finding_and_the_verdict_last() -> None:
    lines = [json.loads(line) for line in render(ALL, "jsonl").splitlines()]
    assert len(lines) == len(ALL.findings) + 1
    assert lines[-1]["verdict"] == "fail"
    assert all(line["command"] == "gpus" for line in lines)


def test_junit_is_xml_whatever_the_message_holds() -> None:
    report = Report("gpus", (*ALL.findings, finding(Status.FAIL, message=NASTY, cause=NASTY)))
    suite = ElementTree.fromstring(render(report, "junit"))
    counted = {key: suite.get(key) for key in ("tests", "failures", "errors", "skipped")}
    assert counted == {"tests": "6", "failures": "2", "errors": "1", "skipped": "1"}
    assert len(suite.findall("testcase/failure")) == 2
    strict = ElementTree.fromstring(render(report, "junit", strict=True))
    assert strict.get("failures") == "3"


def test_prometheus_text_reads_back_with_its_labels() -> None:
    report = Report(
        "gpus", (finding(Status.PASS, value=36, unit="C"), finding(Status.FAIL, "gpu.x", message=NASTY))
    )
    families = {
        family.name: family for family in text_string_to_metric_families(render(report, "prometheus"))
    }
    verdicts = {sample.labels["verdict"]: sample.value for sample in families["provcheck_verdict"].samples}
    assert verdicts == {"pass": 0.0, "warn": 0.0, "fail": 1.0, "unknown": 0.0}
    value = families["provcheck_value"].samples[0]
    assert (value.value, value.labels["unit"], value.labels["subject"]) == (36.0, "C", "gpu0")


def test_nagios_says_it_in_80_characters_and_keeps_one_bar_for_data() -> None:
    lost = finding(Status.FAIL, "gpu.lost", subject="gpu3", message="the GPU is lost | really")
    text = render(Report("gpus", (finding(Status.PASS, value=36), lost)), "nagios")
    first = text.splitlines()[0]
    assert first.startswith("PROVCHECK CRITICAL: gpu3 gpu.lost: the GPU is lost / really")
    assert first.count("|") == 1
    assert "'gpu0.gpu.ecc'=36" in first


def test_nagios_says_once_what_is_said_of_several() -> None:
    down = [finding(Status.FAIL, "fabric.state", subject=f"gpu{n}", message="not started") for n in range(8)]
    gone = [finding(Status.UNKNOWN, f"gpu.{n}", subject="gpu3", message="it is lost") for n in ("ecc", "mig")]
    first = render(Report("gpus", (*gone, *down)), "nagios").splitlines()[0]
    said = "gpu0-gpu7 fabric.state: not started; gpu3 gpu.ecc and 1 more: it is lost"
    assert first.split(" | ")[0] == f"PROVCHECK CRITICAL: {said}"
    five = tuple(finding(Status.FAIL, message=f"fault {n}") for n in range(5))
    assert "; 2 more" in render(Report("gpus", five), "nagios").splitlines()[0]


CODES = [
    # status, provcheck, strict, nagios, strict, npd, strict
    (Status.PASS, 0, 0, 0, 0, 0, 0),
    (Status.WARN, 0, 1, 1, 2, 0, 1),
    (Status.FAIL, 1, 1, 2, 2, 1, 1),
    (Status.UNKNOWN, 3, 3, 3, 3, 2, 2),
    (Status.SKIP, 3, 3, 3, 3, 2, 2),
]


@pytest.mark.parametrize("row", CODES, ids=[row[0].value for row in CODES])
def test_exit_codes_in_three_dialects(row: tuple[Any, ...]) -> None:
    report = Report("gpus", (finding(row[0]),))
    seen = [exit_code(report, style, strict=strict) for style in STYLES for strict in (False, True)]
    assert seen == list(row[1:])


SILENCE = {"id": "gpu.ecc", "subject": "gpu0", "owner": "ops", "reason": "known", "until": "2027-01-31"}


def silenced(tmp_path: Path, *entries: object) -> tuple[silence.Rule, ...]:
    path = tmp_path / "silences.json"
    path.write_text(json.dumps(list(entries)))
    return silence.load(path)


@pytest.mark.parametrize(("day", "counts"), [("2027-01-31", False), ("2027-02-01", True)])
def test_a_silence_holds_through_its_last_day(day: str, counts: bool, tmp_path: Path) -> None:
    rules = silenced(tmp_path, SILENCE)
    bad, good = finding(Status.FAIL), finding(Status.PASS, "gpu.count", subject="host")
    report = Report("gpus", silence.apply((bad, good), rules, datetime.date.fromisoformat(day)))
    assert report.verdict is (Status.FAIL if counts else Status.PASS)


@pytest.mark.parametrize("form", ["table", "json", "jsonl", "nagios"])
def test_a_silence_that_is_over_is_said(
    form: str, tmp_path: Path, healthy: Callable[..., Any], provcheck: Callable[..., Any]
) -> None:
    data = healthy(2)
    for device in data["devices"]:
        device["ecc_unc_vol"] = 3
    (tmp_path / "dump.json").write_text(json.dumps(data))
    over = {"id": "gpu.ecc", "owner": "ops", "reason": "rack 4", "until": "2020-01-31", "subject": "gpu1"}
    well = {**over, "id": "gpu.mig"}
    (tmp_path / "s.json").write_text(json.dumps([over, well]))
    words = ("gpus", "--replay", tmp_path / "dump.json", "--silences", tmp_path / "s.json", "--format", form)
    said = provcheck(*words)
    assert said.code == (2 if form == "nagios" else 1)
    assert "gpu1 gpu.ecc, the silence of ops ended on 2020-01-31: rack 4" in said.out
    assert "gpu.mig, the silence" not in said.out, "what is well needs none"
    (tmp_path / "s.json").write_text(json.dumps([over, {**over, "until": "2999-01-31"}]))
    assert "ended on" not in provcheck(*words).out, "another one holds"


def test_a_silence_is_of_one_id_and_subject(tmp_path: Path) -> None:
    day = datetime.date(2027, 1, 1)
    findings = (finding(Status.FAIL), finding(Status.FAIL, subject="gpu1"), finding(Status.FAIL, "gpu.lost"))
    marked = silence.apply(findings, silenced(tmp_path, SILENCE), day)
    assert [f.silence is not None for f in marked] == [True, False, False]
    everywhere = {key: value for key, value in SILENCE.items() if key != "subject"}
    marked = silence.apply(findings, silenced(tmp_path, everywhere), day)
    assert [f.silence is not None for f in marked] == [True, True, False]


@pytest.mark.parametrize("form", [form for form in FORMATS if form != "prometheus"])
def test_every_report_shows_its_silences(form: str) -> None:
    quiet = finding(Status.FAIL, silence=Silence("ops", "known bad fan", "2027-01-31"))
    text = render(Report("gpus", (quiet, finding(Status.PASS, "gpu.count"))), form)
    assert "known bad fan" in text


def test_prometheus_labels_a_silenced_finding() -> None:
    quiet = finding(Status.FAIL, silence=Silence("ops", "known", "2027-01-31"))
    assert 'silenced="yes"' in render(Report("gpus", (quiet,)), "prometheus")


def test_nothing_but_silenced_findings_is_no_pass() -> None:
    quiet = finding(Status.UNKNOWN, silence=Silence("ops", "known", "2027-01-31"))
    assert Report("gpus", (quiet,)).verdict is Status.WARN


@pytest.mark.parametrize(
    "entry",
    [
        "x",
        {**SILENCE, "until": "soon"},
        {**SILENCE, "owner": " "},
        {**SILENCE, "extra": "x"},
        {**SILENCE, "id": 7},
        {**SILENCE, "id": "gpu.eec"},
        {key: value for key, value in SILENCE.items() if key != "until"},
    ],
)
def test_a_silence_without_owner_reason_or_end_is_refused(entry: object, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="silence 1"):
        silenced(tmp_path, entry)


@pytest.mark.parametrize("text", ["", "{}", "[" * 100_000])
def test_a_silence_file_that_is_no_list_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "silences.json"
    path.write_text(text)
    with pytest.raises(BadInput):
        silence.load(path)


def test_a_report_file_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report"
    write_whole(path, b"first")

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_whole(path, b"second")
    assert (path.read_bytes(), list(tmp_path.iterdir())) == (b"first", [path])


def test_a_report_goes_to_its_file(tmp_path: Path, provcheck: Callable[..., Any]) -> None:
    path = tmp_path / "report.json"
    said = provcheck("gpus", "--expect", 0, "--json", "--output", path)
    assert (said.code, said.out) == (0, "")
    assert json.loads(path.read_text())["verdict"] == "pass"
    assert provcheck("gpus", "--expect", 0, "--output", tmp_path / "no/folder").code == 2
    assert provcheck("gpus", "--expect", 0, "--output", "/dev/null").code == 0
