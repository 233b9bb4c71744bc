"""A record of a live run judges the same anywhere; two services are compared live and from records."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.engine.rig import Engine, K, Measured, provcheck


@pytest.mark.parametrize("name", ["plain", "ngram", "good", "bad"])
def test_a_record_gives_the_verdict_exit_code_and_findings_of_the_live_run(
    measured: dict[str, Measured], name: str
) -> None:
    live = measured[name].ran
    again = provcheck("serve", "--replay", measured[name].record, "--diagnose")
    assert (again.code, again.verdict) == (live.code, live.verdict)
    assert (live.report["evidence"], again.report["evidence"]) == ("live", "replayed")
    assert again.report["findings"] == live.report["findings"]
    assert again.facts == live.facts


def test_a_record_judges_without_the_server_its_log_and_its_models(
    measured: dict[str, Measured], tmp_path: Path
) -> None:
    record = json.loads(measured["bad"].record.read_text())
    text = json.dumps(record).replace(str(measured["bad"].engine.log.parent), "/nowhere")
    assert record["schema"] == "provcheck-record/1"
    assert record["serve"]["drafter_config"]["model_type"] == "qwen3"
    moved = tmp_path / "elsewhere.json"
    moved.write_text(text.replace("/models/", "/gone/"))
    again = provcheck("serve", "--replay", moved, "--diagnose")
    assert again.code == 1
    assert again.facts["diagnosis"]["causes"][0]["id"] == "weights"


def test_comparing_two_live_services_names_the_drafter_and_the_loss(engines: dict[str, Engine]) -> None:
    good, bad = engines["good"], engines["bad"]
    ran = provcheck("compare", good.url, bad.url, "--log-a", good.log, "--log-b", bad.log)
    assert (ran.code, ran.report["evidence"]) == (1, "live")
    found = ran.finding("serve.acceptance")
    assert (found["status"], found["subject"]) == ("fail", "drafter")
    assert ran.facts["a"]["length"] > K
    assert ran.facts["b"]["length"] < 1.2
    keys = [item["key"] for item in ran.facts["differences"]]
    assert keys[0] == "drafter"
    assert not {"k", "method", "dtype", "tp"} & set(keys)


def test_comparing_with_speculation_off_tells_the_settings_that_differ(measured: dict[str, Measured]) -> None:
    ran = provcheck("compare", measured["plain"].record, measured["good"].record)
    assert ran.report["evidence"] == "replayed"
    differ = {item["key"]: (item["a"], item["b"]) for item in ran.facts["differences"]}
    assert differ["method"] == (None, "draft_model")
    assert differ["dtype"] == ("float32", "bfloat16")


def test_a_service_compared_with_itself_differs_in_nothing(measured: dict[str, Measured]) -> None:
    record = measured["good"].record
    ran = provcheck("compare", record, record)
    assert (ran.code, ran.facts["differences"]) == (0, [])
