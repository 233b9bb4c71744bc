"""Step ``speed``: whose figure counts as the source's, and what of the target is held against it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from checks.serving.baseline import SCHEMA
from provision.migrate import speed
from provision.migrate.judged import Verdict
from provision.migrate.speed import Figure
from provision.spec import Baseline
from tests.unit.migrate.answering import DIGEST, RUN, End

MakeEnd = Callable[..., End]
OTHER = "e" * 64


def reading(tok_s: float, digest: str = DIGEST, taken: str = "2026-11-01") -> str:
    return json.dumps(
        {"schema": SCHEMA, "taken": taken, "tok_s": tok_s, "length": 3.5, "kpro": {"digest": digest}}
    )


def report(tok_s: float, **levels: float) -> dict[str, Any]:
    window = {"tok_s": {"1": tok_s, **{name.removeprefix("at"): rate for name, rate in levels.items()}}}
    return {
        "schema": "provcheck/1",
        "verdict": "pass",
        "facts": {"speed": {"tok_s": tok_s}, "window": window},
    }


def check(source: End | None, target: End, seen: dict[str, Any] | None, origin: End | None = None) -> Verdict:
    origin = origin or source
    assert origin is not None
    return speed.check(source, origin, target, RUN, lambda text: None, seen)


def kept(end: End, name: str, text: str) -> None:
    end.put("/var/lib/kpro/good/tiny", DIGEST + "\n")
    end.put(f"/var/lib/kpro/baselines/tiny/{name}", text)


@pytest.mark.parametrize(
    ("tok_s", "state"),
    [(80.0, "pass"), (72.0, "pass"), (71.9, "warn"), (64.0, "warn"), (63.9, "fail"), (160.0, "pass")],
)
def test_the_target_may_be_a_fifth_slower_than_the_kept_reading_and_is_warned_of_a_tenth(
    end: MakeEnd, tok_s: float, state: str
) -> None:
    source = end("kpro6", alone=True)
    kept(source, "abc.json", reading(80.0))
    found = check(source, end("kpro5", alone=True), report(tok_s))
    assert (found.state, found.green) == (state, state != "fail")
    assert "80.0 on kpro6 (kept reading of 2026-11-01)" in found.said


def test_the_reading_of_the_profile_that_serves_counts_before_that_of_its_kind_and_others_never(
    end: MakeEnd,
) -> None:
    own, kind = reading(50.0), reading(80.0, taken="2026-11-20")
    files = {
        f"abc.{DIGEST[:12]}.json": own,
        "abc.json": kind,
        "xyz.json": reading(500.0, OTHER, "2026-11-29"),
    }
    assert speed.chosen(DIGEST, files).tok_s == 50.0  # type: ignore[union-attr]
    assert speed.chosen(DIGEST, {"abc.json": kind}).tok_s == 80.0  # type: ignore[union-attr]
    assert speed.chosen(DIGEST, {"xyz.json": files["xyz.json"]}) is None
    assert speed.chosen("", files) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": "x", "tok_s": 3}', reading(0.0), "null"])
def test_a_reading_that_cannot_be_read_is_none(text: str) -> None:
    assert speed.chosen(DIGEST, {"abc.json": text}) is None


def test_without_a_kept_reading_what_the_inventory_states_counts(end: MakeEnd) -> None:
    source = end("kpro6", alone=True, baseline=Baseline(decode_tok_s=73.5, source="the log of May"))
    found = check(source, end("kpro5", alone=True), report(40.0))
    assert (found.state, "stated: the log of May" in found.said) == ("fail", True)
    kept(source, "abc.json", reading(44.0))
    assert check(source, end("kpro4", alone=True), report(40.0)).state == "pass"


def test_a_figure_of_several_at_once_is_held_against_as_many(end: MakeEnd) -> None:
    source = end("kpro6", alone=True, baseline=Baseline(decode_tok_s=20.0, concurrency=4, source="x"))
    assert check(source, end("kpro5", alone=True), report(90.0, at4=10.0)).state == "fail"
    found = check(source, end("kpro4", alone=True), report(5.0, at4=19.0))
    assert (found.state, "of 4 at once" in found.said) == ("pass", True)


def test_a_dead_source_without_a_figure_is_not_compared_and_it_is_said(end: MakeEnd) -> None:
    found = check(None, end("kpro5", alone=True), report(40.0), origin=end("kpro6", alone=True))
    assert (found.state, found.green, "states no baseline" in found.said) == ("skip", True, True)


def test_a_dead_source_with_a_stated_figure_is_compared(end: MakeEnd) -> None:
    origin = end("kpro6", alone=True, baseline=Baseline(decode_tok_s=73.5, source="x"))
    assert check(None, end("kpro5", alone=True), report(40.0), origin=origin).state == "fail"


def test_the_cut_over_of_this_run_counts_and_that_of_another_does_not(end: MakeEnd) -> None:
    target = end("kpro5", alone=True)
    target.put("/var/lib/kpro/good/tiny", DIGEST)

    def told(**more: Any) -> Figure | None:
        record = {"run": RUN, "digest": DIGEST, "tok_s": 70.0, "acceptance": 3.4, "when": "now", **more}
        target.put("/var/lib/kpro/trials/tiny.service.json", json.dumps(record))
        return speed._cut_over(target, RUN)

    assert told() == Figure(70.0, "the cut-over of this run", 3.4, "now")
    for other in ({"run": "20261130T120000Z-ffffff"}, {"digest": OTHER}, {"tok_s": None}, {"tok_s": True}):
        assert told(**other) is None
    target.put("/var/lib/kpro/trials/tiny.service.json", "{")
    assert speed._cut_over(target, RUN) is None


def test_a_target_that_cannot_be_measured_is_unknown(end: MakeEnd) -> None:
    source = end("kpro6", alone=True)
    kept(source, "abc.json", reading(80.0))
    found = check(source, end("kpro5", alone=True), None)
    assert (found.state, found.green) == ("unknown", False)
    assert "could not be measured" in found.said


def test_a_lost_connection_is_unknown(end: MakeEnd) -> None:
    source = end("kpro6", alone=True)
    source.down = True
    assert check(source, end("kpro5", alone=True), report(80.0)).state == "unknown"


def test_other_gpus_are_told_and_excuse_nothing_but_the_services_own_limit_does(end: MakeEnd) -> None:
    source = end("kpro6", alone=True, gpus=("H200",))
    kept(source, "abc.json", reading(80.0))
    found = check(source, end("kpro5", alone=True, gpus=("RTX A6000",)), report(40.0))
    assert found.state == "fail"
    assert "the GPUs are others: H200; here RTX A6000" in found.lines
    assert any("speed_fail" in line for line in found.lines)
    meant = end("kpro4", alone=True, gpus=("RTX A6000",), thresholds={"speed_fail": 0.4, "speed_warn": 0.45})
    assert check(source, meant, report(40.0)).state == "pass"


def test_both_readings_are_told_for_the_journal(end: MakeEnd) -> None:
    source = end("kpro6", alone=True)
    kept(source, "abc.json", reading(80.0))
    before, now = check(source, end("kpro5", alone=True), report(79.0)).facts["readings"]
    assert (before["side"], before["what"], before["host"], before["tok_s"]) == (
        "source",
        "baseline",
        "kpro6",
        80.0,
    )
    assert (now["side"], now["what"], now["service"], now["by_concurrency"]) == (
        "target",
        "measured",
        "tiny",
        {"1": 79.0},
    )


def test_both_are_measured_where_nothing_is_known_of_either(end: MakeEnd) -> None:
    found = check(end("kpro6", pace="400"), end("kpro5", pace="200"), None)
    assert found.state == "fail"
    assert "measured now" in found.said
