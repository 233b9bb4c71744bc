"""One vocabulary for both engines, from whatever they say of themselves."""

from __future__ import annotations

from typing import Any

import pytest

from checks.data.settings_map import SETTINGS
from checks.serving.enginelog import parse
from checks.serving.observation import Observation
from checks.serving.settings import Settings, settings_of


def _of(**parts: Any) -> Settings:
    seen = Observation(**parts)
    return settings_of(seen, parse((seen.log or "").splitlines()))


SGLANG = {
    "server_info": {
        "model_path": "Qwen/Qwen3.6-27B",
        "tp_size": 2,
        "speculative_algorithm": "EAGLE",
        "speculative_draft_model_path": None,
        "speculative_num_draft_tokens": 4,
        "disable_cuda_graph": False,
        "disable_custom_all_reduce": True,
        "disable_radix_cache": False,
        "disable_overlap_schedule": False,
        "kv_cache_dtype": "auto",
        "attention_backend": "fa3",
        "mamba_radix_cache_strategy": "extra_buffer",
        "version": "0.5.23",
        "internal_states": [{"avg_spec_accept_length": 3.4}],
    }
}
VLLM = (
    "INFO non-default args: {'model': 'Qwen/Qwen3.6-27B', 'tensor_parallel_size': 2, 'attention_backend':"
    " 'FLASHINFER', 'speculative_config': {'method': 'qwen3_5_mtp', 'num_speculative_tokens': 3}}\nINFO"
    " Initializing a V1 LLM engine (v0.33.0) with config: model='Qwen/Qwen3.6-27B',"
    " speculative_config=SpeculativeConfig(method='mtp', model='Qwen/Qwen3.6-27B', num_spec_tokens=3),"
    " dtype=torch.bfloat16, tensor_parallel_size=2, disable_custom_all_reduce=True, quantization=None,"
    " enforce_eager=False, kv_cache_dtype=auto, enable_prefix_caching=True\nINFO Using FLASH_ATTN attention"
    " backend out of potential backends: ['FLASH_ATTN'].\nINFO vLLM is using nccl==2.28.9\nWARNING Custom"
    " allreduce is disabled because your platform lacks GPU P2P capability or P2P test failed.\nINFO Graph"
    " capturing finished in 1 secs, took 0.05 GiB\n"
)


def test_sglangs_four_draft_tokens_are_vllms_three_and_its_eagle_without_a_model_is_mtp() -> None:
    one, two = _of(config=SGLANG), _of(log=VLLM)
    assert (one.engine, two.engine) == ("sglang", "vllm")
    assert one.get("k") == two.get("k") == 3
    assert one.get("method") == two.get("method") == "mtp"
    for key in (
        "tp",
        "cuda_graphs",
        "custom_all_reduce",
        "prefix_caching",
        "kv_cache_dtype",
        "attention_backend",
    ):
        assert one.get(key) == two.get(key), key


def test_eagle_with_a_draft_model_is_not_mtp() -> None:
    info = {"server_info": {**SGLANG["server_info"], "speculative_draft_model_path": "a/eagle"}}
    assert _of(config=info).get("method") == "eagle"


def test_the_log_has_the_last_word_on_what_was_used() -> None:
    found = _of(log=VLLM)
    assert found.asked["attention_backend"] == "flashinfer"
    assert found.get("attention_backend") == "flashattention"
    assert found.get("custom_all_reduce") is False
    assert found.get("nccl") == "2.28.9"


def test_no_speculation_is_known_from_unknown() -> None:
    off = VLLM.replace(
        "'speculative_config': {'method': 'qwen3_5_mtp', 'num_speculative_tokens': 3}", "'seed': 0"
    )
    off = off.replace("SpeculativeConfig(method='mtp', model='Qwen/Qwen3.6-27B', num_spec_tokens=3)", "None")
    assert _of(log=off).speculation is False
    assert _of(log=VLLM).speculation is True
    assert _of(log="nothing of the kind").speculation is None


@pytest.mark.parametrize(
    ("words", "key", "value"),
    [
        (["vllm", "serve", "m", "--tensor-parallel-size", "4"], "tp", 4),
        (["vllm", "serve", "m", "--enforce-eager"], "cuda_graphs", False),
        (["vllm", "serve", "m", "--no-enable-prefix-caching"], "prefix_caching", False),
        (["vllm", "serve", "m", "--kv-cache-dtype=fp8"], "kv_cache_dtype", "fp8"),
        (["vllm", "--speculative-config", '{"method":"dflash","num_speculative_tokens":15}'], "k", 15),
        (["vllm", "-sc", '{"method":"ngram","num_speculative_tokens":5}'], "method", "ngram"),
    ],
)
def test_a_command_line_is_read(words: list[str], key: str, value: Any) -> None:
    assert _of(config={"engine": "vllm", "proc": {"cmdline": words}}).get(key) == value


@pytest.mark.parametrize(
    ("words", "key", "value"),
    [
        (["sglang", "serve", "--tp", "2"], "tp", 2),
        (["sglang", "serve", "--disable-cuda-graph"], "cuda_graphs", False),
        (
            ["sglang", "serve", "--speculative-algorithm", "DFLASH", "--speculative-num-draft-tokens", "16"],
            "k",
            15,
        ),
    ],
)
def test_a_command_line_of_sglang_is_read(words: list[str], key: str, value: Any) -> None:
    assert _of(config={"engine": "sglang", "proc": {"cmdline": words}}).get(key) == value


def test_vllms_own_server_info_is_read_in_both_forms() -> None:
    nested = {
        "server_info": {
            "vllm_config": {
                "parallel_config": {"tensor_parallel_size": 2},
                "speculative_config": {"method": "dflash", "num_speculative_tokens": 15},
            },
            "vllm_env": {"NCCL_P2P_DISABLE": "1"},
        }
    }
    printed = {"server_info": {"vllm_config": "model='m', tensor_parallel_size=2, enforce_eager=True"}}
    assert _of(config=nested).get("k") == 15
    assert _of(config=nested).get("tp") == 2
    assert _of(config=printed).get("tp") == 2
    assert _of(config=printed).get("cuda_graphs") is False


def test_a_journal_over_several_starts_is_judged_by_the_last() -> None:
    dead = (
        VLLM + "ERROR EngineDeadError: EngineCore encountered an issue\nINFO Using auxiliary layers from"
        " speculative config: (1, 5, 9)\n"
    )
    facts = parse((dead + VLLM).splitlines())
    assert facts.errors == ()
    assert facts.layers is None
    assert [error.row for error in parse(dead.splitlines()).errors] == ["engine_dead"]


def test_every_setting_is_mapped_for_an_engine_and_says_where_it_comes_from() -> None:
    assert len({row.key for row in SETTINGS}) == len(SETTINGS)
    assert all(
        (row.vllm or row.sglang) and row.source and row.meaning and 0 <= row.effect <= 3 for row in SETTINGS
    )
