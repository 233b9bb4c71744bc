"""Fields of candidates and thresholds: each wrong one is refused with its path, all of them at once."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.spec.test_refusals import CANDIDATE, FIRST


def _with(words: str) -> tuple[str, str]:
    return (CANDIDATE[0], CANDIDATE[1].replace('profile="vllm-dflash"', f'profile="vllm-dflash", {words}'))


def test_a_candidate_says_its_environment_thresholds_mode_and_what_it_must_beat(desk: Any) -> None:
    words = 'environment={"A": "b"}, thresholds={"speed_warn": 0.95}, beats=1.05, mode="swap"'
    more = ("port=8000,", 'port=8000, drain_seconds=5, thresholds={"speed_fail": 0.7},')
    loaded = desk.load(_with(words), more)
    service = loaded.machines[0].guests[0].services[0]
    promoted = service.promoted()
    assert promoted is not None
    assert promoted.environment == service.environment | {"A": "b"}
    assert promoted.thresholds == {"speed_fail": 0.7, "speed_warn": 0.95}
    assert (promoted.listen, promoted.port, promoted.name) == (service.listen, service.port, service.name)
    assert service.drain_seconds == 5


@pytest.mark.parametrize(
    ("words", "field", "said"),
    [
        ('mode="both"', "candidate.mode", "auto"),
        ("beats=0", "candidate.beats", "0 is too small: it must be more than 0"),
        ("beats=-1", "candidate.beats", "-1 is too small: it must be more than 0"),
        ("beats=100", "candidate.beats", "100 is too large: it must be less than 100"),
        ('thresholds={"sped_fail": 0.7}', "candidate.thresholds", "there is no threshold 'sped_fail'"),
        ('thresholds={"speed_fail": -1}', "candidate.thresholds", "no number above 0"),
        ('thresholds={"speed_fail": 0.95}', "candidate.thresholds", "above speed_warn=0.9"),
        ('thresholds={"step_fail": 1.1}', "candidate.thresholds", "below step_warn=1.25"),
        ('environment={"1A": "b"}', "candidate.environment", "no names of environment variables"),
        ('environment={"A": "b\\nc"}', "candidate.environment", "line break"),
    ],
)
def test_a_wrong_field_of_a_candidate_is_refused_with_its_path(
    desk: Any, words: str, field: str, said: str
) -> None:
    told = [reason for reason in desk.reasons(_with(words)) if reason.startswith(f"{FIRST}.{field}")]
    assert told
    assert said in told[0]


def test_all_wrong_thresholds_are_told_at_once(desk: Any) -> None:
    (reason,) = desk.reasons(_with('thresholds={"a": 1.0, "speed_fail": 0.0, "length_fail": 0.95}'))
    assert all(word in reason for word in ("'a'", "speed_fail=0.0", "length_fail=0.95"))


def test_a_candidate_that_is_the_service_itself_is_refused(desk: Any) -> None:
    words = 'port=8000, candidate=Candidate(engine=Engine(kind="sglang", version="0.5.11"), profile={}),'
    (reason,) = desk.reasons(("port=8000,", words.format('"sglang-mtp"')))
    assert reason.startswith(f"{FIRST}.candidate: is the service itself")
    assert desk.load(("port=8000,", words.format('"plain"')))


def test_a_baseline_that_no_measurement_can_be_held_against_is_refused(desk: Any) -> None:
    many = ("port=8000,", 'port=8000, baseline=Baseline(decode_tok_s=9.0, concurrency=65, source="x"),')
    (reason,) = desk.reasons(many)
    assert reason.startswith(f"{FIRST}.baseline.concurrency: 65")
    assert desk.load((many[0], many[1].replace("65", "64")))
