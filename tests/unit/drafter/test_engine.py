"""Which ids which engine captures: one table of conventions, read as each version reads it."""

from __future__ import annotations

import pytest

from checks.data.id_conventions import ABILITIES, MEANING, READINGS
from checks.drafter.engine import Engine, release
from tests.unit.drafter.makers import case_of, toy_pair


@pytest.mark.parametrize(
    ("engine", "runner", "captured"),
    [
        ("vllm==0.20.1", None, (0, 4, 8)),
        ("vllm==0.20.2", None, (0, 4, 8)),
        ("vllm==0.21.0", "v2", (0, 4, 8)),
        ("vllm==0.22.0", None, (1, 5, 9)),
        ("vllm==0.22.0", "v2", (0, 4, 8)),
        ("vllm==0.23.0", "v2", (0, 4, 8)),
        ("vllm==0.24.0", "v2", (1, 5, 9)),
        ("vllm==0.33.0", None, (1, 5, 9)),
        ("vllm==0.33.0", "v1", (1, 5, 9)),
        ("sglang==0.5.11", None, (1, 5, 9)),
        ("sglang==0.5.23", None, (1, 5, 9)),
        ("dflash==0.1.0", None, (1, 5, 9)),
    ],
)
def test_plain_ids_are_captured_as_each_version_counts(
    engine: str, runner: str | None, captured: tuple[int, ...]
) -> None:
    pair = toy_pair()
    assert pair.config is not None
    del pair.config["eagle_aux_hidden_state_layer_ids"]
    assert case_of(pair, engine, runner=runner).captured_layers == captured


@pytest.mark.parametrize("engine", ["vllm==0.20.1", "vllm==0.22.0", "vllm==0.33.0"])
def test_a_shifted_list_at_the_top_is_read_first_by_every_vllm(engine: str) -> None:
    pair = toy_pair()
    assert pair.config is not None
    pair.config["dflash_config"]["target_layer_ids"] = [0, 1, 2]
    assert case_of(pair, engine).captured_layers == (1, 5, 9)


def test_sglang_does_not_see_the_list_at_the_top() -> None:
    pair = toy_pair()
    assert pair.config is not None
    pair.config["eagle_aux_hidden_state_layer_ids"] = [0, 1, 2]
    assert case_of(pair, "sglang==0.5.11").captured_layers == (1, 5, 9)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("0.20.1", (0, 20, 1)), ("0.5.10.post1", (0, 5, 10)), ("0.22.0rc1", (0, 22)), ("0.33.0+cu130", (0, 33))],
)
def test_versions_compare_by_release(text: str, numbers: tuple[int, ...]) -> None:
    assert release(text) == numbers


def test_post_releases_stand_before_the_next_release() -> None:
    assert release("0.5.10.post1") < release("0.5.11")
    assert not Engine.parse("sglang==0.5.10.post1").readings
    assert Engine.parse("sglang==0.5.11").readings


@pytest.mark.parametrize("text", ["vllm", "vllm=0.20.1", "tgi==1", "vllm==", "0.20.1"])
def test_what_is_no_engine_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"engine like|lacks the version"):
        Engine.parse(text)


def test_a_runner_belongs_to_vllm_only() -> None:
    with pytest.raises(ValueError, match="belongs to vllm"):
        Engine.parse("sglang==0.5.11", "v2")


def test_every_row_has_a_source_and_reads_a_field_whose_meaning_is_known() -> None:
    assert {row.field for row in READINGS} <= MEANING.keys()
    assert all(row.source for row in (*READINGS, *ABILITIES))


@pytest.mark.parametrize("topic", sorted({row.topic for row in ABILITIES}))
def test_no_version_has_two_answers_to_one_question(topic: str) -> None:
    for name, versions in {
        "vllm": ("0.19.0", "0.20.1", "0.24.0", "0.25.0", "0.33.0"),
        "sglang": ("0.5.10", "0.5.11"),
    }.items():
        for version in versions:
            for runner in ("v1", "v2") if name == "vllm" else (None,):
                engine = Engine.parse(f"{name}=={version}", runner)
                assert sum(row.topic == topic and engine._covers(row) for row in ABILITIES) <= 1
