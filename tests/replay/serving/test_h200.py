"""vLLM 0.20.1 with a trained DFlash drafter on one H200, in a container that the chain made: judged anywhere.

``records/good.json`` is the service as it was deployed; the others are that service with one thing changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from checks.cli import main

HERE = Path(__file__).parent / "records"
PAGE = (HERE.parents[3] / "docs/measurements.md").read_text()
GOOD = HERE / "good.json"

# name: (status of the report, ids that fail, what the headline says)
AGAINST_GOOD: dict[str, tuple[str, set[str], str]] = {
    "good": ("warn", set(), "nothing to explain"),
    "eager": ("fail", {"serve.speed", "serve.step"}, "infrastructure: CUDA graphs off"),
    "theta": ("fail", {"serve.acceptance", "serve.drafter_config"}, "wrong or missing rope_theta"),
    "early": ("fail", {"serve.acceptance_baseline", "serve.layers"}, "wrong target layers captured"),
    "untrained": ("fail", {"serve.acceptance"}, "untrained, foreign or no weights"),
    "mask": (
        "fail",
        {"serve.acceptance"},
        "drafter configuration: wrong mask token (dflash_config.mask_token_id: 4090 -> 4094 since the baseline)",
    ),
}


def judged(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[dict[str, Any], int]:
    code = main(["serve", *words, "--diagnose", "--json"])
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    return report, code


def failing(report: dict[str, Any]) -> set[str]:
    return {finding["id"] for finding in report["findings"] if finding["status"] == "fail"}


@pytest.mark.parametrize("name", AGAINST_GOOD)
def test_each_fault_is_named_against_the_service_as_it_was_deployed(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    verdict, ids, headline = AGAINST_GOOD[name]
    report, code = judged(capsys, "--replay", str(HERE / f"{name}.json"), "--baseline", str(GOOD))
    assert (report["verdict"], report["evidence"]) == (verdict, "replayed")
    assert code == (1 if verdict == "fail" else 0)
    assert ids <= failing(report)
    assert headline in report["facts"]["diagnosis"]["headline"]


def test_the_good_one_fails_nothing_and_is_no_fault_of_any_kind(capsys: pytest.CaptureFixture[str]) -> None:
    report, _ = judged(capsys, "--replay", str(GOOD))
    assert failing(report) == set()
    passing = {finding["id"] for finding in report["findings"] if finding["status"] == "pass"}
    assert {"serve.acceptance", "serve.graphs", "serve.layers", "serve.tensors"} <= passing


def test_a_warning_that_is_not_of_drafts_or_speed_is_not_called_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    report, _ = judged(capsys, "--replay", str(GOOD), "--baseline", str(GOOD))
    said = {finding["id"]: finding for finding in report["findings"]}
    (diagnosis, output) = (said["serve.diagnosis"], said["serve.output"])
    assert (diagnosis["status"], output["status"]) == ("warn", "warn")
    assert diagnosis["message"].startswith(
        f"no cause among those of drafts and speed: serve.output says it: {output['message']}"
    )


def test_graphs_off_lowers_no_acceptance_and_a_drafter_costs_no_time_per_step(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The two numbers that tell a machine from a drafter."""
    eager, _ = judged(capsys, "--replay", str(HERE / "eager.json"), "--baseline", str(GOOD))
    dead, _ = judged(capsys, "--replay", str(HERE / "untrained.json"), "--baseline", str(GOOD))
    assert "serve.acceptance" not in failing(eager)
    assert "serve.acceptance_baseline" not in failing(eager)
    assert "serve.step" not in failing(dead)


def test_a_wrong_mask_token_can_leave_the_first_position_healthy(capsys: pytest.CaptureFixture[str]) -> None:
    """Which unused id stands in decides: this one's embedding is near enough for the first token, and for no other."""
    report, _ = judged(capsys, "--replay", str(HERE / "mask.json"))
    acceptance = report["facts"]["acceptance"]
    assert acceptance["per_position"][0] > 0.7
    assert acceptance["length"] < 2
    assert "wrong mask token" in report["facts"]["diagnosis"]["headline"]


def test_a_folder_of_ones_own_is_told_and_is_no_cause(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("theta", "early", "untrained", "mask"):
        report, _ = judged(capsys, "--replay", str(HERE / f"{name}.json"), "--baseline", str(GOOD))
        told = report["facts"]["diagnosis"]
        assert "drift" not in {cause["id"] for cause in told["causes"]}
        assert f"-> /opt/others/{name}" in told["context"][0]


def test_compare_tells_graphs_on_and_off_apart(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(GOOD), str(HERE / "eager.json"), "--json"]) == 1
    (settings,) = [f for f in json.loads(capsys.readouterr().out)["findings"] if f["id"] == "serve.settings"]
    assert "CUDA graphs: on -> off" in settings["message"]
    assert main(["compare", str(GOOD), str(GOOD), "--json"]) == 0


@pytest.mark.parametrize("name", AGAINST_GOOD)
def test_the_page_of_measurements_says_what_the_record_says(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    report, _ = judged(capsys, "--replay", str(HERE / f"{name}.json"))
    facts = report["facts"]
    cells = next(line for line in PAGE.splitlines() if line.startswith("| ") and f"| {name} |" in line)
    assert f"| {facts['acceptance']['length']:.2f} |" in cells
    assert f"| {facts['speed']['tok_s']:.1f} |" in cells
