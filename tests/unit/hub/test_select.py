"""Which files of a repository are fetched, and what is refused before the first byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provision.data.model_files import LARGEST, NOT_READY, REDUNDANT
from provision.hub.problems import Problem
from provision.hub.select import HubFile, Listing, amount, select

COMMIT = "1" * 40


def listing(*paths: str, card: str | None = None, size: int = 10) -> Listing:
    return Listing("org/m", COMMIT, tuple(HubFile(path, size, "a" * 64, None) for path in paths), card)


def chosen(*paths: str, files: tuple[str, ...] | None = None, role: str = "model") -> set[str]:
    return {file.path for file in select(listing(*paths), files, role).files}


SHARDS = ("config.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")


@pytest.mark.parametrize(
    "twice",
    [
        "pytorch_model.bin",
        "pytorch_model.pt",
        "tf_model.h5",
        "flax_model.msgpack",
        "onnx/model.onnx",
        "model-Q4_K_M.gguf",
        "original/consolidated.00.pth",
        "consolidated.safetensors",
        ".gitattributes",
    ],
)
def test_weights_that_are_there_twice_are_fetched_once(twice: str) -> None:
    assert chosen(*SHARDS, twice) == set(SHARDS)
    assert chosen(*SHARDS, twice, files=("*",)) == {*SHARDS, twice}


@pytest.mark.parametrize(
    "paths",
    [
        ("config.json", "pytorch_model.bin"),
        ("config.json", "model.gguf"),
        ("model.gguf",),
        ("params.json", "config.json", "consolidated.safetensors"),
        (
            *SHARDS,
            "tokenizer.json",
            "LICENSE",
            "modeling_x.py",
            "chat_template.jinja",
            "vision/preprocessor.json",
        ),
    ],
)
def test_nothing_is_left_out_that_has_no_replacement(paths: tuple[str, ...]) -> None:
    assert chosen(*paths) == set(paths)


@given(
    st.sets(
        st.sampled_from([*SHARDS, "a.bin", "b.pt", "c.gguf", "consolidated.safetensors", "d.h5", "e.txt"])
    )
)
def test_whatever_there_is_weights_stay_weights(paths: set[str]) -> None:
    """By the rows alone a repository with weights never ends without any."""
    has = any(path.endswith((".safetensors", ".bin", ".pt", ".gguf")) for path in paths)
    if not has:
        with pytest.raises(Problem, match="is no drafter"):
            chosen(*paths, role="drafter")
        return
    left = chosen(*paths, role="drafter")
    assert any(path.endswith((".safetensors", ".bin", ".pt", ".gguf")) for path in left)


def test_patterns_choose_and_the_rest_is_said() -> None:
    found = select(listing(*SHARDS, "model-Q4.gguf", "config.yaml"), ("*Q4.gguf", "config.*"), "model")
    assert {file.path for file in found.files} == {"config.json", "config.yaml", "model-Q4.gguf"}
    assert {why for _, why in found.left_out} == {"not in files=(…)"}
    assert found.size == 30


@pytest.mark.parametrize(
    ("paths", "files", "role"),
    [
        ((), None, "model"),
        (("README.md", "data.parquet"), None, "model"),
        (("adapter_config.json", "adapter_model.safetensors"), None, "model"),
        (("model.safetensors",), None, "model"),
        (SHARDS, ("*.json",), "model"),
        (("config.json",), None, "drafter"),
    ],
)
def test_what_is_no_model_is_refused(
    paths: tuple[str, ...], files: tuple[str, ...] | None, role: str
) -> None:
    with pytest.raises(Problem, match="is no") as caught:
        select(listing(*paths), files, role)
    assert caught.value.kind == "no-model"
    assert caught.value.next


def test_a_bare_drafter_is_fetched_and_told() -> None:
    found = select(listing("model.safetensors"), None, "drafter")
    assert "no config.json" in found.notes[0]
    assert "provcheck drafter" in found.notes[0]
    assert select(listing("config.json", "model.safetensors"), None, "drafter").notes == ()


@pytest.mark.parametrize(
    "card",
    [
        "This model is still under training.",
        "The drafter is still being trained",
        "**Work in progress**",
        "Training is not finished yet",
    ],
)
def test_a_drafter_that_is_still_trained_is_told_by_its_own_words(card: str) -> None:
    (note,) = select(listing("config.json", "a.safetensors", card=card), None, "drafter").notes
    assert NOT_READY.search(card).group() in note  # type: ignore[union-attr]
    assert "provcheck drafter" in note


@pytest.mark.parametrize("card", ["Trained on 800k samples.", "Training data: see below", "under MIT", None])
def test_an_ordinary_card_is_no_warning(card: str | None) -> None:
    assert select(listing("config.json", "a.safetensors", card=card), None, "drafter").notes == ()


@pytest.mark.parametrize(
    "path",
    [
        "../../etc/cron.d/x",
        "/etc/passwd",
        "a/../../b",
        "a//b",
        "a\nb",
        "a\\b",
        "kpro-manifest.json",
        "x.kpro-partial",
    ],
)
def test_a_name_that_leads_out_of_its_folder_is_refused(path: str) -> None:
    with pytest.raises(Problem) as caught:
        select(listing(*SHARDS, path), None, "model")
    assert caught.value.kind == "odd-name"


def test_a_file_too_large_for_plain_http_is_refused_before_anything() -> None:
    with pytest.raises(Problem, match="50 GB"):
        select(listing(*SHARDS, size=LARGEST + 1), None, "model")
    assert select(listing(*SHARDS, size=LARGEST), None, "model").size == 3 * LARGEST


def test_every_row_says_why_and_where_from() -> None:
    for row in REDUNDANT:
        assert row.why
        assert row.source
        assert row.patterns


def test_amounts_are_for_people() -> None:
    assert [amount(n) for n in (0, 1023, 1024, 5 << 20, 53 << 30, 5 << 40)] == [
        "0 B",
        "1023 B",
        "1.0 KiB",
        "5.0 MiB",
        "53.0 GiB",
        "5120.0 GiB",
    ]
