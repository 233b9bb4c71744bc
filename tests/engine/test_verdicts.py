"""A good drafter passes, a bad one is named and the machine is not blamed, n-gram is judged by its own measure."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.engine.rig import Engine, K, Measured, provcheck, status


def test_a_good_drafter_passes_with_a_length_near_its_most(measured: dict[str, Measured]) -> None:
    ran = measured["good"].ran
    assert (ran.code, ran.verdict) == (0, "pass"), ran.statuses()
    assert K + 0.8 < ran.facts["acceptance"]["length"] <= K + 1
    assert ran.status("serve.acceptance") == "pass"
    assert ran.facts["diagnosis"]["causes"] == []


def test_a_bad_drafter_is_named_behind_a_healthy_service_with_readable_answers(
    engines: dict[str, Engine], measured: dict[str, Measured]
) -> None:
    ran = measured["bad"].ran
    assert status(engines["bad"].url, "/health") == 200
    assert (ran.status("serve.ready"), ran.status("serve.output")) == ("pass", "pass")
    assert (ran.code, ran.verdict) == (1, "fail")
    found = ran.finding("serve.acceptance")
    assert (found["status"], found["subject"], found["cause"]) == ("fail", "drafter", "drafter")
    assert "dead drafter" in found["message"]


def test_a_bad_drafter_is_diagnosed_as_weights_and_the_machine_is_excluded_with_the_reason(
    measured: dict[str, Measured],
) -> None:
    told = measured["bad"].ran.facts["diagnosis"]
    assert told["determined"] is True
    assert told["causes"][0]["id"] == "weights"
    assert told["headline"].startswith("drafter weights")
    assert "infrastructure excluded because acceptance counts tokens, not time" in told["headline"]
    families = {cause["family"] for cause in told["causes"]}
    assert "infrastructure" not in families
    out = {cause["id"]: cause["because"] for cause in told["excluded"]}
    assert {"starved_cpu", "transport", "hardware"} <= out.keys()
    assert all(out.values())
    assert measured["bad"].ran.finding("serve.diagnosis")["status"] == "fail"


def test_ngram_speculation_passes_and_its_length_is_not_taken_for_a_drafters(
    measured: dict[str, Measured],
) -> None:
    ran = measured["ngram"].ran
    assert (ran.code, ran.status("serve.acceptance")) == (0, "pass"), ran.statuses()
    assert "not comparable with a drafter's" in ran.finding("serve.acceptance")["message"]
    assert ran.facts["speed"]["ms_per_step"] is None


@pytest.fixture(scope="module")
def baselines(measured: dict[str, Measured], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Saved baselines of speculation off and of the good drafter, from live runs."""
    folder = tmp_path_factory.mktemp("baselines")
    found = {name: folder / f"{name}.json" for name in ("plain", "good")}
    for name, file in found.items():
        engine = measured[name].engine
        assert provcheck("serve", *engine.seen, "--save-baseline", file).code == 0
    return found


def test_a_service_holds_against_its_own_baseline(
    engines: dict[str, Engine], baselines: dict[str, Path]
) -> None:
    ran = provcheck("serve", *engines["good"].seen, "--baseline", baselines["good"])
    assert ran.status("serve.acceptance_baseline") == "pass"
    assert ran.finding("serve.acceptance_baseline")["value"] == pytest.approx(1.0, abs=0.03)
    # The speed is this machine's at this moment: the verdict must follow from it, whatever it is.
    speed = ran.finding("serve.speed")
    ratio = 0.8 * speed["value"] / speed["limit"]
    assert speed["status"] == ("fail" if ratio < 0.8 else "warn" if ratio < 0.9 else "pass")


def test_a_drafter_that_died_is_seen_against_the_baseline_of_the_good_one(
    engines: dict[str, Engine], baselines: dict[str, Path]
) -> None:
    bad = engines["bad"]
    ran = provcheck("serve", *bad.seen, "--baseline", baselines["good"], "--diagnose")
    assert ran.code == 1
    assert ran.status("serve.acceptance_baseline") == "fail"
    assert ran.finding("serve.acceptance_baseline")["value"] < 0.3
    assert ran.status("serve.speed") == "fail"
    assert "infrastructure excluded" in ran.facts["diagnosis"]["headline"]


def test_against_speculation_off_a_bad_drafter_is_a_net_loss_and_the_break_even_is_the_cost_of_a_step(
    engines: dict[str, Engine], baselines: dict[str, Path]
) -> None:
    bad = engines["bad"]
    ran = provcheck("serve", *bad.seen, "--baseline", baselines["plain"])
    found = ran.finding("serve.break_even")
    assert found["status"] == "warn"
    assert found["value"] < 0.8
    assert "a net loss" in found["message"]
    off = json.loads(baselines["plain"].read_text())["tok_s"]
    assert ran.facts["break_even"] == pytest.approx(ran.facts["speed"]["ms_per_step"] * off / 1000, rel=0.01)
    assert ran.facts["break_even"] > ran.facts["acceptance"]["length"]
