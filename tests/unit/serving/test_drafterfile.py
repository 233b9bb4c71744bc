"""What a drafter's config and tensor list say by themselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from checks.model import Status
from checks.serving import record
from checks.serving.drafterfile import DrafterFacts, Files, Running, drafter_facts

CONFIG = {"dflash_config": {"mask_token_id": 7, "target_layer_ids": [1, 5, 9]}, "num_hidden_layers": 2}
PARTS = [
    "self_attn.q_proj",
    "self_attn.k_proj",
    "self_attn.v_proj",
    "self_attn.o_proj",
    "self_attn.q_norm",
    "self_attn.k_norm",
    "mlp.gate_proj",
    "mlp.up_proj",
    "mlp.down_proj",
    "input_layernorm",
    "post_attention_layernorm",
]
NAMES = [
    "fc.weight",
    "hidden_norm.weight",
    "norm.weight",
    *(f"layers.{at}.{part}.weight" for at in range(2) for part in PARTS),
]


def _facts(names: list[str], config: dict[str, Any] | None = None) -> DrafterFacts:
    tensors: dict[str, Any] = {name: {} for name in names}
    return drafter_facts(Files(config or CONFIG, tensors), Running("vllm", "0.20.1", method="dflash"))


def _missing(names: list[str]) -> list[str]:
    return _facts(names).told(("drafter.tensors",), (Status.FAIL,))


def test_a_whole_checkpoint_lacks_nothing() -> None:
    assert _missing(NAMES) == []


@pytest.mark.parametrize("name", NAMES)
def test_every_single_missing_tensor_is_found(name: str) -> None:
    assert _missing([other for other in NAMES if other != name]) == [f"1 tensors are missing: {name}"]


def test_quantised_and_prefixed_names_are_no_gaps() -> None:
    packed = [name.replace("up_proj.weight", "up_proj.weight_packed") for name in NAMES]
    assert _missing(packed) == []
    assert _missing([f"model.{name}" for name in NAMES]) == []


def test_other_drafters_are_not_judged_by_dflash_names() -> None:
    facts = drafter_facts(
        Files({"architectures": ["Qwen3ForCausalLM"], "num_hidden_layers": 2}, {"embed_tokens.weight": {}}),
        Running("vllm", "0.20.1", method="draft_model"),
    )
    assert not facts.dflash


def test_without_a_version_no_engine_is_accused_of_counting_otherwise() -> None:
    assert drafter_facts(Files(CONFIG), Running("vllm", "0.20.1")).unshifted
    assert not drafter_facts(Files(CONFIG), Running("vllm", "0.22.0")).unshifted
    assert not drafter_facts(Files(CONFIG), Running("vllm")).unshifted


def test_k_is_counted_as_vllm_does_for_every_engine() -> None:
    config = {**CONFIG, "block_size": 8}
    assert drafter_facts(Files(config), Running("vllm", "0.20.1", k=7)).best_k == 7
    assert drafter_facts(Files(config), Running("sglang", "0.5.11", k=7)).best_k == 7


@pytest.mark.parametrize(
    "tensors",
    [
        NAMES,
        {name: {} for name in NAMES},
        [{"name": name, "shape": [1]} for name in NAMES],
        {"__metadata__": {}} | {name: {} for name in NAMES},
    ],
)
def test_a_tensor_list_is_taken_in_every_form(tmp_path: Path, tensors: Any) -> None:
    path = tmp_path / "record.json"
    path.write_text(
        json.dumps(
            {"schema": "provcheck-record/1", "serve": {"drafter_config": CONFIG, "drafter_tensors": tensors}}
        )
    )
    seen = record.load(str(path))
    assert set(seen.drafter_tensors or {}) == set(NAMES)


def test_an_empty_tensor_list_counts_as_not_recorded(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    path.write_text(
        json.dumps({"schema": "provcheck-record/1", "serve": {"log": "x", "drafter_tensors": []}})
    )
    assert record.load(str(path)).drafter_tensors is None
