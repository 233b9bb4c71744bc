"""What a profile takes from the drafter's own config, and that the operator's flags win."""

from __future__ import annotations

import json
from typing import Any

import pytest

from provision.data import engines
from provision.data.around import Around
from provision.spec import Service
from tests.unit.profiles.conftest import service

SGLANG = ("sglang", "0.5.23", "sglang-dflash")
VLLM = ("vllm", "0.20.1", "vllm-dflash")


def around(**config: Any) -> Around:
    return Around(drafter=config)


def value(made: Service, flag: str, seen: Around) -> str:
    words = engines.command(made, "/e", seen)
    assert words.count(flag) == 1
    return words[words.index(flag) + 1]


def drafts(made: Service, seen: Around) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(value(made, "--speculative-config", seen))
    return found


@pytest.mark.parametrize("block", [8, 16])
def test_how_many_tokens_are_drafted_is_what_the_drafters_own_config_says(block: int) -> None:
    for config in ({"block_size": block}, {"dflash_config": {"block_size": block}}):
        for version in ("0.20.1", "0.33.0"):
            made = drafts(service("vllm", version, "vllm-dflash"), around(**config))
            assert made["num_speculative_tokens"] == block - 1
        for version in ("0.5.11", "0.5.23"):
            made_by = service("sglang", version, "sglang-dflash")
            assert value(made_by, "--speculative-num-draft-tokens", around(**config)) == str(block)


def test_the_plan_says_the_number_and_where_it_comes_from() -> None:
    (note,) = engines.launched(service(*VLLM), around(block_size=8)).notes
    assert "7 drafts" in note
    assert f"block size 8 in /srv/models/z-lab--drafter@{'2' * 40}/config.json" in note
    (note,) = engines.launched(service(*SGLANG), around(block_size=8)).notes
    assert note.startswith("8 draft tokens, anchor included: block size 8")


@pytest.mark.parametrize("profile", [SGLANG, VLLM], ids=["sglang", "vllm"])
def test_what_is_not_known_yet_stays_open_and_is_never_a_default(profile: tuple[str, str, str]) -> None:
    made = engines.launched(service(*profile), Around())
    assert len(made.open) == 1
    assert "config.json is not there to be read yet" in made.open[0]
    assert made.notes == []
    assert engines.launched(service(*profile), around(block_size=16)).open == []


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({}, "says no block size"),
        ({"block_size": "16"}, "says no block size"),
        ({"block_size": 1}, "says block size 1"),
        ({"block_size": 16, "dflash_config": {"block_size": 8}}, "says block size 8 and 16"),
    ],
)
def test_a_config_without_one_block_size_is_refused_with_the_next_step(
    config: dict[str, Any], words: str
) -> None:
    for profile in (SGLANG, VLLM):
        ((seen, why, step),) = engines.launched(service(*profile), around(**config)).wrong
        assert words in seen
        assert "not trained for" in why
        assert "provcheck drafter" in step


@pytest.mark.parametrize(
    ("kind", "flags"),
    [
        (SGLANG, ("--speculative-num-draft-tokens", "8")),
        (SGLANG, ("--speculative-num-draft-tokens=8",)),
        (VLLM, ("--speculative-config.num_speculative_tokens", "7")),
        (VLLM, ("-sc.num_speculative_tokens=7",)),
        (("vllm", "0.33.0", "vllm-dflash"), ("--spec-tokens", "7")),
    ],
)
def test_the_operators_own_number_wins_and_the_conflict_is_said(
    kind: tuple[str, str, str], flags: tuple[str, ...]
) -> None:
    made = service(*kind, *flags)
    words = engines.command(made, "/e", around(block_size=16))
    if kind is SGLANG:
        assert [word for word in words if word.startswith("--speculative-num-draft-tokens")] == [flags[0]]
    else:
        assert drafts(made, around(block_size=16))["num_speculative_tokens"] == 7
        assert not [word for word in words if word.startswith(("-sc.", "--spec-tokens"))]
    said = " ".join(engines.launched(made, around(block_size=16)).notes)
    assert "7 drafts where the block size" in said
    assert "the inventory's flags win" in said


def test_more_drafts_than_the_block_has_are_named_as_untrained() -> None:
    made = service(*VLLM, "--speculative-config.num_speculative_tokens", "15")
    assert "not trained for more" in " ".join(engines.launched(made, around(block_size=8)).notes)
    agreed = service(*VLLM, "--speculative-config.num_speculative_tokens", "7")
    assert engines.launched(agreed, around(block_size=8)).notes == []


def test_the_operators_number_needs_no_config_to_be_read() -> None:
    made = service(*VLLM, "--speculative-config.num_speculative_tokens", "5")
    assert engines.launched(made, Around()).open == []
    assert drafts(made, Around())["num_speculative_tokens"] == 5
    assert engines.launched(made, around()).wrong == []


def test_a_dotted_key_becomes_part_of_the_json_and_does_not_replace_it() -> None:
    """vLLM's parser makes an object of its own from dotted keys and puts it behind the JSON, where it counts alone."""
    made = service(
        "vllm", "0.33.0", "vllm-dflash", "--speculative-config.attention_backend", "FLASH_ATTN", "--seed", "1"
    )
    found = drafts(made, around(block_size=16))
    assert found["attention_backend"] == "FLASH_ATTN"
    assert found["method"] == "dflash"
    assert found["model"].startswith("/srv/models/z-lab--drafter@")
    assert engines.command(made, "/e", around(block_size=16))[-2:] == ["--seed", "1"]


def test_a_flag_of_the_profile_under_another_name_is_the_same_flag() -> None:
    made = service("sglang", "0.5.23", "draft-model", "--speculative-draft-model", "/srv/models/other")
    words = engines.command(made, "/e")
    assert "--speculative-draft-model-path" not in words
    assert words[-2:] == ["--speculative-draft-model", "/srv/models/other"]


def test_a_flag_that_the_profile_does_not_have_changes_nothing_of_it() -> None:
    plain = engines.command(service("sglang", "0.5.23", "sglang-mtp"), "/e")
    more = engines.command(service("sglang", "0.5.23", "sglang-mtp", "--page-size", "64"), "/e")
    assert more == [*plain, "--page-size", "64"]
    assert engines.launched(service("sglang", "0.5.23", "sglang-mtp", "--page-size", "64")).notes == []


def test_sglang_has_a_draft_model_under_the_name_of_its_own() -> None:
    for version in ("0.5.10.post1", "0.5.11", "0.5.23"):
        words = engines.command(service("sglang", version, "draft-model"), "/e")
        assert words[words.index("--speculative-algorithm") + 1] == "STANDALONE"
