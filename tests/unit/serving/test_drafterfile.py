"""What a drafter's config and tensor list say by themselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from checks.serving import record
from checks.serving.drafterfile import drafter_facts, family_ids, missing_tensors

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


def _missing(names: list[str]) -> tuple[str, ...]:
    return missing_tensors(drafter_facts(CONFIG, {name: {} for name in names}, None))


def test_a_whole_checkpoint_lacks_nothing() -> None:
    assert _missing(NAMES) == ()


@pytest.mark.parametrize("name", NAMES)
def test_every_single_missing_tensor_is_found(name: str) -> None:
    assert _missing([other for other in NAMES if other != name]) == (name,)


def test_fused_and_quantised_and_prefixed_names_are_no_gaps() -> None:
    fused = [n for n in NAMES if not any(p in n for p in ("q_proj", "k_proj", "v_proj"))]
    fused += [f"layers.{at}.self_attn.qkv_proj.weight" for at in range(2)]
    assert _missing(fused) == ()
    assert _missing([name.replace("up_proj.weight", "up_proj.weight_packed") for name in NAMES]) == ()
    assert _missing([f"model.{name}" for name in NAMES]) == ()


def test_other_drafters_are_not_judged_by_dflash_names() -> None:
    assert missing_tensors(drafter_facts({"num_hidden_layers": 2}, {"x": {}}, None)) == ()


@pytest.mark.parametrize(
    ("layers", "captured", "ids"),
    [
        (64, 5, (1, 16, 31, 46, 61)),
        (36, 5, (1, 9, 17, 25, 33)),
        (40, 5, (1, 10, 19, 28, 37)),
        (48, 5, (1, 12, 23, 34, 45)),
        (62, 5, (1, 16, 30, 44, 59)),
        (12, 3, (1, 5, 9)),
        (32, 1, (16,)),
    ],
)
def test_the_familys_rule_gives_the_published_ids(layers: int, captured: int, ids: tuple[int, ...]) -> None:
    assert family_ids(layers, captured) == ids


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
