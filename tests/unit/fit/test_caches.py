"""Cache sizes against what engines logged about themselves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.fit.ask import Model, Question
from checks.fit.cache import Settings, drafted, plan, request_blocks, specs, state_bytes, vllm_request_bytes
from checks.fit.engines import layers_of
from checks.fit.gpus import GIB, Gpus
from checks.fit.shape import FULL, SLIDING, read_shape

from .conftest import DEEPSEEK_V32, DFLASH_27B, QWEN3_8B, QWEN36_27B, QWEN36_35B

TINY = {
    "hidden_size": 256,
    "num_hidden_layers": 12,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "vocab_size": 4096,
    "max_position_embeddings": 4096,
}


def blocks(config: dict[str, Any], drafter: dict[str, Any] | None, pool: int, settings: Settings) -> int:
    """Blocks that a pool of bytes has."""
    layers = drafted(
        specs(read_shape(config), settings), read_shape(drafter) if drafter else None, settings, windows=True
    )
    return pool // plan(layers, settings).block_bytes


@pytest.mark.parametrize(
    ("drafter", "logged"),
    [
        (None, 10922),
        (TINY | {"num_hidden_layers": 3}, 8738),
        (TINY | {"num_hidden_layers": 2, "num_key_value_heads": 1, "num_attention_heads": 2}, 10082),
    ],
)
def test_a_gibibyte_holds_as_many_blocks_as_vllm_0_20_1_counted(
    drafter: dict[str, Any] | None, logged: int
) -> None:
    """num_gpu_blocks of the recorded servers: no drafter, a DFlash drafter of 3 layers, a draft model of 2."""
    assert blocks(TINY, drafter, GIB, Settings(tp=1)) == logged


@pytest.mark.parametrize(("pool", "logged"), [(6.01, 4.35), (5.98, 4.33)])
def test_a_hybrid_model_serves_as_many_requests_as_vllm_0_24_said(pool: float, logged: float) -> None:
    """noonghunna/club-3090#652 and #612: Qwen3.6-35B-A3B, fp8 cache, 131,072 tokens per request."""
    settings = Settings(tp=1, dtype="fp8", batched=8192)
    layout = plan(specs(read_shape(QWEN36_35B), settings), settings)
    concurrency = pool * GIB // layout.block_bytes / request_blocks(layout, settings, 131072)
    assert round(concurrency, 2) == pytest.approx(logged, abs=0.011)


def test_attention_blocks_grow_to_the_size_of_a_recurrent_state_as_vllm_logged() -> None:
    """noonghunna/club-3090#1047: block size 1568, padding 0.13 %, for the 27B with an fp8 cache on one GPU."""
    settings = Settings(tp=1, dtype="fp8")
    shape = read_shape(QWEN36_27B)
    layout = plan(specs(shape, settings), settings)
    assert layout.block == 1568
    assert round(100 * (layout.page / state_bytes(shape, settings) - 1), 2) == 0.13


def test_layers_of_a_drafter_form_groups_of_their_own_as_vllm_logged() -> None:
    """noonghunna/club-3090#96: 2 padding layers of 48 (4.17 %) and 4 of 16 (25 %): groups of five."""
    settings = Settings(tp=2)
    layers = drafted(specs(read_shape(QWEN36_27B), settings), read_shape(DFLASH_27B), settings, windows=False)
    layout = plan(layers, settings)
    assert layout.group_size == 5
    assert len(layout.groups) == 50 // 5 + 20 // 5 + 1


def test_kinds_of_nearly_equal_number_are_padded_to_the_larger_as_vllm_says_of_gpt_oss() -> None:
    """v1/core/kv_cache_utils.py 0.20.1: 12 window and 13 full layers become two groups of 13."""
    kinds = ["sliding_attention"] * 12 + ["full_attention"] * 13
    settings = Settings(tp=1)
    config = QWEN3_8B | {"num_hidden_layers": 25, "layer_types": kinds, "sliding_window": 128}
    layout = plan(specs(read_shape(config), settings), settings)
    assert (layout.group_size, len(layout.groups)) == (13, 2)


def test_three_padding_layers_beside_one_mtp_head_as_vllm_logged() -> None:
    """noonghunna/club-3090#104 and others: 3 padding layers, 6.25 % of 48."""
    question = Question("vllm", "0.21.0", Gpus((GIB,), "test"), 1, Settings(tp=2, speculative=3), mtp=True)
    layout = plan(layers_of(Model(read_shape(QWEN36_27B), None), question), question.settings)
    assert (layout.group_size, len(layout.groups)) == (17, 1 + 51 // 17)


def test_grouped_query_attention_costs_what_sglang_logged() -> None:
    """vllm-project/vllm#21348: Qwen3-235B-A22B on four GPUs, 367,404 tokens are 8.23 GB of keys and as much values."""
    config = QWEN3_8B | {"num_hidden_layers": 94, "num_key_value_heads": 4}
    per_token = sum(spec.per_token for spec in specs(read_shape(config), Settings(tp=4)))
    assert round(367404 * per_token / 2 / GIB, 2) == 8.23


def test_latent_attention_is_not_sharded_and_a_sparse_index_adds_132_bytes() -> None:
    for tp in (1, 8):
        layers = specs(read_shape(DEEPSEEK_V32), Settings(tp=tp, block=64))
        assert {spec.per_token for spec in layers} == {576 * 2 + 132}
    assert len(layers) == 61


def test_key_value_heads_are_kept_whole_when_there_are_more_ranks_than_heads() -> None:
    sizes = {tp: specs(read_shape(QWEN3_8B), Settings(tp=tp))[0].per_token for tp in (1, 2, 8, 16)}
    assert sizes == {1: 4096, 2: 2048, 8: 512, 16: 512}


def test_window_layers_stop_growing_and_full_layers_do_not() -> None:
    config = QWEN3_8B | {
        "layer_types": ["sliding_attention"] * 18 + ["full_attention"] * 18,
        "sliding_window": 1024,
    }
    settings = Settings(tp=1)
    windowed = specs(read_shape(config), settings)
    full = specs(read_shape(QWEN3_8B), settings)
    assert {spec.kind for spec in windowed} == {FULL, SLIDING}
    assert vllm_request_bytes(windowed, settings, 40960) < 0.6 * vllm_request_bytes(full, settings, 40960)
    off = replace(settings, hybrid=False)
    assert vllm_request_bytes(specs(read_shape(config), off), off, 40960) == vllm_request_bytes(
        full, settings, 40960
    )


def test_a_drafters_windows_count_only_for_an_engine_that_honours_them() -> None:
    settings = Settings(tp=2)
    target, drafter = specs(read_shape(QWEN3_8B), settings), read_shape(DFLASH_27B)
    old = vllm_request_bytes(drafted(target, drafter, settings, windows=False), settings, 32768)
    assert {s.kind for s in drafted(target, drafter, settings, windows=False)} == {FULL}
    assert SLIDING in {s.kind for s in drafted(target, drafter, settings, windows=True)}
    assert old > vllm_request_bytes(target, settings, 32768)


@given(st.integers(1, 1 << 20), st.sampled_from([1, 2, 4]), st.sampled_from(["auto", "fp8"]))
def test_a_longer_request_never_needs_less_and_more_ranks_never_more(
    context: int, tp: int, dtype: str
) -> None:
    for config in (QWEN3_8B, QWEN36_27B):
        one, two = Settings(tp=tp, dtype=dtype), Settings(tp=2 * tp, dtype=dtype)
        layers = specs(read_shape(config), one)
        need = vllm_request_bytes(layers, one, context)
        assert need <= vllm_request_bytes(layers, one, context + 4096)
        assert vllm_request_bytes(specs(read_shape(config), two), two, context) <= 1.02 * need + (1 << 24)


@pytest.mark.parametrize(
    ("rope", "longest"),
    [
        (None, 40960),
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}, 131072),
        ({"type": "linear", "factor": 2}, 81920),
        ({"rope_type": "llama3", "factor": 8.0}, 40960),
        ({"full": {"rope_type": "default"}, "sliding": {"rope_type": "default"}}, 40960),
        ({"rope_type": "yarn", "factor": None}, 40960),
    ],
)
def test_positions_are_scaled_as_vllm_scales_them(rope: dict[str, Any] | None, longest: int) -> None:
    assert read_shape(QWEN3_8B | {"rope_scaling": rope}).max_positions == longest


def test_a_recurrent_state_of_open_type_follows_the_engine() -> None:
    config = {k: v for k, v in QWEN36_35B.items() if k != "mamba_ssm_dtype"}
    sizes = [state_bytes(read_shape(config), Settings(tp=1, state_bytes=size)) for size in (2, 4)]
    assert sizes[1] - sizes[0] == 32 * 128 * 128 * 2
    assert state_bytes(read_shape(QWEN36_35B), Settings(tp=1)) == sizes[1]
