"""Tensor parallel over the guest's GPUs: added where nobody said otherwise, refused where heads do not divide."""

from __future__ import annotations

from typing import Any

import pytest

from provision.data import engines
from provision.data.around import Around
from tests.unit.profiles.conftest import service

TARGET: dict[str, Any] = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 5120,
    "intermediate_size": 17408,
    "num_hidden_layers": 64,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 248320,
}
KINDS = [("vllm", "0.20.1"), ("vllm", "0.33.0"), ("sglang", "0.5.11"), ("sglang", "0.5.23")]


@pytest.mark.parametrize(("kind", "version"), KINDS)
def test_every_gpu_of_the_guest_gets_its_share(kind: str, version: str) -> None:
    made = service(kind, version)
    words = engines.command(made, "/e", Around(gpus=2, target=TARGET))
    assert words[words.index("--tensor-parallel-size") + 1] == "2"
    assert engines.launched(made, Around(gpus=2)).notes == ["tensor parallel 2: the guest has 2 GPUs"]


@pytest.mark.parametrize("gpus", [0, 1])
def test_one_gpu_has_nobody_to_share_with(gpus: int) -> None:
    assert "--tensor-parallel-size" not in engines.command(service("vllm", "0.20.1"), "/e", Around(gpus))


@pytest.mark.parametrize(
    ("kind", "version", "flags"),
    [
        ("vllm", "0.20.1", ("--tensor-parallel-size", "1")),
        ("vllm", "0.20.1", ("-tp=2",)),
        ("vllm", "0.33.0", ("--tensor_parallel_size", "2")),
        ("sglang", "0.5.23", ("--tp", "1")),
        ("sglang", "0.5.11", ("--tp-size", "2")),
        ("vllm", "0.33.0", ("--pipeline-parallel-size", "2")),
        ("sglang", "0.5.23", ("--dp-size", "2")),
    ],
)
def test_what_the_operator_says_about_the_split_is_all_that_is_said(
    kind: str, version: str, flags: tuple[str, ...]
) -> None:
    plain = engines.command(service(kind, version), "/e")
    assert engines.command(service(kind, version, "plain", *flags), "/e", Around(gpus=2)) == [*plain, *flags]


def test_gpus_that_are_left_idle_are_named() -> None:
    made = engines.launched(service("vllm", "0.20.1", "plain", "-tp", "1"), Around(gpus=2))
    assert made.notes == ["flags use 1 of the guest's 2 GPUs"]


@pytest.mark.parametrize(
    ("gpus", "flags", "asked"), [(3, (), 3), (4, ("-tp", "3"), 3), (3, ("--tensor-parallel-size=3",), 3)]
)
def test_heads_that_do_not_divide_are_refused_before_an_engine_does(
    gpus: int, flags: tuple[str, ...], asked: int
) -> None:
    around = Around(gpus=gpus, target=TARGET)
    ((seen, _, step),) = engines.launched(service("vllm", "0.20.1", "plain", *flags), around).wrong
    assert f"{asked} GPUs share the model, and 32 attention heads do not divide by 3" in seen
    assert f"to {4 if gpus == 4 else 2} in flags" in step
    fine = Around(gpus=4, target=TARGET)
    assert engines.launched(service("vllm", "0.20.1"), fine).wrong == []


def test_the_drafters_heads_count_too() -> None:
    drafter = {**TARGET, "num_attention_heads": 6, "num_key_value_heads": 6, "block_size": 16}
    made = service("vllm", "0.20.1", "vllm-dflash")
    ((seen, _, step),) = engines.launched(made, Around(gpus=4, target=TARGET, drafter=drafter)).wrong
    assert seen.startswith("4 GPUs share the drafter")
    assert "to 2 in flags" in step


@pytest.mark.parametrize("config", [None, {}, {"num_attention_heads": "many"}])
def test_a_config_that_does_not_say_refuses_nothing(config: dict[str, Any] | None) -> None:
    assert engines.launched(service("vllm", "0.20.1"), Around(gpus=3, target=config)).wrong == []
