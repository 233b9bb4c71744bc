"""What provcheck measures on a running vLLM is what that vLLM counts itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.engine.rig import Engine, K, Measured, counted, provcheck

DRAFTS, DRAFTED, ACCEPTED, TOKENS = (
    "spec_decode_num_drafts_total",
    "spec_decode_num_draft_tokens_total",
    "spec_decode_num_accepted_tokens_total",
    "generation_tokens_total",
)
READY = 16
"""At most so many drafts and tokens belong to the answer that shows readiness, before the window opens."""


@pytest.mark.parametrize("name", ["good", "bad", "ngram"])
def test_length_counts_and_curve_are_those_that_the_engine_counted(
    measured: dict[str, Measured], name: str
) -> None:
    one = measured[name]
    told = one.ran.facts["acceptance"]
    drafts = one.gained(DRAFTS)
    own = [one.gained(f"pos.{at}") / drafts for at in range(K)]
    assert sum(own) == pytest.approx(one.gained(ACCEPTED) / drafts)
    assert (told["source"], told["k"]) == ("counters", K)
    assert 200 <= told["drafts"] <= drafts <= told["drafts"] + READY
    assert told["length"] == pytest.approx(1 + sum(own), rel=0.02)
    assert told["per_position"] == pytest.approx(own, abs=0.02)


@pytest.mark.parametrize("name", ["plain", "good", "bad", "ngram"])
def test_the_generated_tokens_are_those_that_the_engine_counted(
    measured: dict[str, Measured], name: str
) -> None:
    one = measured[name]
    told = one.ran.finding("serve.generates")["value"]
    assert one.gained(TOKENS) - READY <= told <= one.gained(TOKENS)
    assert one.ran.status("serve.window") == "pass"


def timed(one: Measured) -> float:
    """Decode tokens/s of one request by the engine's own clock."""
    requests = one.gained("request_decode_time_seconds_count")
    return (one.gained(TOKENS) - requests) / one.gained("request_decode_time_seconds_sum")


@pytest.mark.parametrize("name", ["plain", "good", "bad"])
def test_the_decode_speed_is_the_one_that_the_engine_timed(measured: dict[str, Measured], name: str) -> None:
    speed = measured[name].ran.facts["speed"]
    # A busy machine delays the way to the client, which can only make it look slower.
    assert 0.5 < speed["tok_s"] / timed(measured[name]) < 1.3, speed
    length = (measured[name].ran.facts["acceptance"] or {"length": 1.0})["length"]
    assert speed["ms_per_step"] == pytest.approx(1000 * length / speed["tok_s"], rel=0.01)


@pytest.mark.parametrize(("factor", "believed"), [(0.9, True), (1000.0, False)])
def test_answers_that_arrive_in_bursts_do_not_make_an_engine_fast(
    measured: dict[str, Measured], factor: float, believed: bool, tmp_path: Path
) -> None:
    record = json.loads(measured["plain"].record.read_text())
    rate = factor * timed(measured["plain"])
    record["serve"]["window"]["tok_s"]["1"] = rate
    changed = tmp_path / "changed.json"
    changed.write_text(json.dumps(record))
    speed = provcheck("serve", "--replay", changed).facts["speed"]
    assert speed["tok_s"] == pytest.approx(rate if believed else timed(measured["plain"]), rel=0.1)
    assert ("bursts" in speed["source"]) is not believed


def test_without_speculation_there_is_no_draft_and_that_is_said(measured: dict[str, Measured]) -> None:
    ran = measured["plain"].ran
    assert DRAFTS not in measured["plain"].after
    assert (ran.code, ran.verdict, ran.facts["acceptance"]) == (0, "pass", None)
    assert ran.finding("serve.speculation")["message"] == "speculation off"


@pytest.mark.parametrize("name", ["plain", "good", "bad", "ngram"])
def test_a_passive_look_reads_exactly_the_counters_and_sends_nothing(
    engines: dict[str, Engine], measured: dict[str, Measured], name: str
) -> None:
    engine = engines[name]
    before = counted(engine.url)
    ran = provcheck(
        "serve",
        *engine.seen,
        "--passive",
    )
    after = counted(engine.url)
    assert [after[key] for key in (TOKENS, DRAFTS, "request_success_total")] == [
        before[key] for key in (TOKENS, DRAFTS, "request_success_total")
    ]
    assert ran.finding("serve.generates")["value"] == before[TOKENS]
    if name == "plain":
        assert ran.facts["acceptance"] is None
        return
    told = ran.facts["acceptance"]
    assert told["drafts"] == before[DRAFTS]
    assert told["length"] == pytest.approx(1 + before[ACCEPTED] / before[DRAFTS], abs=1e-4)
    assert before[DRAFTED] / before[DRAFTS] == pytest.approx(K, abs=0.25 if name == "ngram" else 1e-9)
    assert ran.code == (1 if name == "bad" else 0)


def test_a_passive_look_since_an_earlier_one_counts_only_what_came_between(
    engines: dict[str, Engine], tmp_path: Path
) -> None:
    engine, earlier = engines["good"], tmp_path / "earlier.json"
    assert provcheck("serve", engine.url, "--passive", "--record", earlier).code == 0
    before = counted(engine.url)
    between = provcheck("serve", engine.url)
    assert between.code == 0
    later = provcheck("serve", engine.url, "--passive", "--since", earlier)
    assert later.facts["since"] == "window"
    assert later.facts["acceptance"]["drafts"] == counted(engine.url)[DRAFTS] - before[DRAFTS]
    assert later.facts["acceptance"]["drafts"] >= between.facts["acceptance"]["drafts"]


def test_counters_that_were_tampered_with_are_refused_and_not_judged(
    measured: dict[str, Measured], tmp_path: Path
) -> None:
    record = json.loads(measured["bad"].record.read_text())
    page, name = record["serve"]["after"], "vllm:spec_decode_num_accepted_tokens_total"
    lines = [
        line if not line.startswith(name) else f"{line.rpartition(' ')[0]} 1e9" for line in page.splitlines()
    ]
    record["serve"]["after"] = "\n".join(lines)
    lie = tmp_path / "lie.json"
    lie.write_text(json.dumps(record))
    ran = provcheck("serve", "--replay", lie)
    assert ran.code == 2
    assert "contradict" in ran.said
