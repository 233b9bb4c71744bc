"""The answer before it is sent: what speculation may change and what it may not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provision.testhost.standin.kpro_standin.engine import Engine
from provision.testhost.standin.kpro_standin.generation import Wish, plan
from provision.testhost.standin.kpro_standin.model import Model
from provision.testhost.standin.kpro_standin.speculation import (
    HEALTHY,
    Speculation,
    SpeculationError,
    parse_speculation,
)

rates = st.lists(st.floats(0, 1), min_size=1, max_size=15).map(lambda found: sorted(found, reverse=True))


def speculation(acceptance: list[float]) -> Speculation:
    return Speculation("ngram", tuple(acceptance), 1.3)


@settings(max_examples=50)
@given(acceptance=rates, key=st.binary(max_size=20), tokens=st.integers(1, 60), free=st.booleans())
def test_speculation_changes_the_steps_and_never_the_tokens(
    model: Model, acceptance: list[float], key: bytes, tokens: int, free: bool
) -> None:
    wish = Wish(key, tokens, ignore_eos=not free)
    plain, drafted = plan(model, None, wish), plan(model, speculation(acceptance), wish)
    assert plain.tokens == drafted.tokens
    assert plain.finish == drafted.finish
    assert all(len(step.tokens) == 1 and step.accepted is None for step in plain.steps)


@settings(max_examples=50)
@given(acceptance=rates, key=st.binary(max_size=20), tokens=st.integers(1, 60))
def test_every_drafted_step_yields_what_it_accepted_and_one_bonus_token(
    model: Model, acceptance: list[float], key: bytes, tokens: int
) -> None:
    first, *steps = plan(model, speculation(acceptance), Wish(key, tokens, ignore_eos=True)).steps
    assert (len(first.tokens), first.accepted) == (1, None)
    assert all(step.accepted is not None and len(step.tokens) == step.accepted + 1 for step in steps)
    assert all(0 <= (step.accepted or 0) <= len(acceptance) for step in steps)
    assert 1 + sum(len(step.tokens) for step in steps) == tokens


@pytest.mark.parametrize("acceptance", [HEALTHY, (0.077, 0.001, 0.0), (1.0, 1.0), (0.0, 0.0)])
def test_the_stated_rates_are_met_at_every_position(model: Model, acceptance: tuple[float, ...]) -> None:
    steps = plan(model, speculation(list(acceptance)), Wish(b"rates", 4000, ignore_eos=True)).steps[1:-1]
    for position, stated in enumerate(acceptance):
        seen = sum((step.accepted or 0) > position for step in steps) / len(steps)
        assert seen == pytest.approx(stated, abs=0.04)


def test_a_dead_drafter_accepts_nothing_and_a_perfect_one_everything(model: Model) -> None:
    wish = Wish(b"x", 41, ignore_eos=True)
    assert {step.accepted for step in plan(model, speculation([0.0] * 4), wish).steps[1:]} == {0}
    assert {step.accepted for step in plan(model, speculation([1.0] * 4), wish).steps[1:]} == {4}


def test_a_seed_or_another_prompt_gives_another_answer(model: Model) -> None:
    answers = {plan(model, None, Wish(key, 20, ignore_eos=True)).tokens for key in (b"a", b"b", b"c")}
    assert len(answers) == 3


def test_an_answer_has_at_least_min_tokens(model: Model) -> None:
    short = [len(plan(model, None, Wish(b"%d" % i, 500)).tokens) for i in range(40)]
    longer = [len(plan(model, None, Wish(b"%d" % i, 500, min_tokens=100)).tokens) for i in range(40)]
    assert min(short) < 100 <= min(longer)


def test_the_empty_fault_makes_tokens_without_text_and_garbage_one_word(model: Model) -> None:
    empty = plan(model, None, Wish(b"x", 5, ignore_eos=True), "empty")
    assert (len(empty.tokens), "".join(token.text for token in empty.tokens)) == (5, "")
    garbage = plan(model, None, Wish(b"x", 5), "garbage")
    assert len({token.id for token in garbage.tokens}) == 1
    assert len({token.id for token in plan(model, None, Wish(b"x", 5)).tokens}) > 1


def seconds(model: Model, drafter: Speculation | None, fault: str | None = None) -> float:
    engine = Engine(model, "tiny", drafter, tok_s=100.0, fault=fault)
    return sum(map(engine.seconds, plan(model, drafter, Wish(b"pace", 200, ignore_eos=True)).steps))


def test_a_good_drafter_is_faster_than_none_and_a_dead_one_slower(model: Model) -> None:
    plain = seconds(model, None)
    assert plain == pytest.approx(2.0)
    assert seconds(model, speculation(list(HEALTHY))) < 0.5 * plain
    assert seconds(model, speculation([0.079, 0.039])) > 1.1 * plain


def test_a_slow_machine_costs_time_with_and_without_a_drafter(model: Model) -> None:
    for drafter in (None, speculation(list(HEALTHY))):
        assert seconds(model, drafter, "slow") == pytest.approx(20 * seconds(model, drafter))


def drafter_in(folder: Path, **config: Any) -> str:
    (folder / "config.json").write_text(json.dumps(config))
    return str(folder)


def test_a_drafter_folder_states_its_own_acceptance(tmp_path: Path) -> None:
    stated = {"acceptance": [0.079, 0.039], "step_cost": 4.1}
    model = drafter_in(tmp_path, dflash_config={"mask_token_id": 2}, standin=stated)
    config = {"method": "dflash", "model": model, "num_speculative_tokens": 15}
    found = parse_speculation(json.dumps(config))
    assert found is not None
    assert (found.k, found.step_cost) == (15, 4.1)
    assert found.acceptance[:2] == (0.079, 0.039)
    assert list(found.acceptance) == sorted(found.acceptance, reverse=True)
    config["standin"] = {"acceptance": [0.9]}
    nearer = parse_speculation(json.dumps(config))
    assert nearer is not None
    assert nearer.acceptance == (0.9, *[0.0] * 14)


def test_no_configuration_is_no_speculation() -> None:
    assert parse_speculation(None) is None


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ("{", "not JSON"),
        ("[]", "not a JSON object"),
        ({"method": "ngram"}, "num_speculative_tokens None"),
        ({"method": "ngram", "num_speculative_tokens": 0}, "num_speculative_tokens 0"),
        ({"method": "ngram", "num_speculative_tokens": True}, "num_speculative_tokens True"),
        ({"method": "medusa", "num_speculative_tokens": 1}, "'medusa' is none of"),
        ({"method": ["ngram"], "num_speculative_tokens": 1}, "is none of"),
        ({"method": "ngram", "num_speculative_tokens": 1, "typo": 1}, "unknown key typo"),
        ({"method": "eagle3", "num_speculative_tokens": 1}, "needs model="),
        ({"method": "eagle3", "num_speculative_tokens": 1, "model": "/nowhere"}, "config.json is missing"),
        (
            {"method": "ngram", "num_speculative_tokens": 1, "standin": {"acceptance": [0.1, 0.2]}},
            "never rises",
        ),
        ({"method": "ngram", "num_speculative_tokens": 1, "standin": {"acceptance": [1.1]}}, "from 0 to 1"),
        ({"method": "ngram", "num_speculative_tokens": 1, "standin": {"acceptance": []}}, "list of shares"),
        ({"method": "ngram", "num_speculative_tokens": 1, "standin": {"step_cost": 0}}, "step_cost 0"),
        ({"method": "ngram", "num_speculative_tokens": 1, "standin": {"typo": 0}}, "nothing else"),
    ],
)
def test_a_wrong_speculative_configuration_is_refused_with_its_reason(config: Any, reason: str) -> None:
    text = config if isinstance(config, str) else json.dumps(config)
    with pytest.raises(SpeculationError, match=reason):
        parse_speculation(text)


def test_a_dflash_drafter_without_a_mask_token_is_refused(tmp_path: Path) -> None:
    config = {
        "method": "dflash",
        "num_speculative_tokens": 7,
        "model": drafter_in(tmp_path, dflash_config={}),
    }
    with pytest.raises(SpeculationError, match="mask_token_id"):
        parse_speculation(json.dumps(config))
    drafter_in(tmp_path, dflash_config={"mask_token_id": 2})
    assert parse_speculation(json.dumps(config)) is not None
