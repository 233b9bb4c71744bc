"""Where each engine reads the ids of the captured target layers, and which layer it then captures.

Three ways of counting exist. ``i``: the output of decoder layer i, from 0 (the reference code and its
config.json). ``j = i + 1``: the number of layers that have run (vLLM inside, speculators files, GGUF files).
An engine that takes an ``i`` for a ``j`` captures one layer early and says nothing.

A row's ``offset`` is what must be added to the written number to get the ``i`` that this engine really
captures. Rows of one engine are in the order in which the engine looks. Versions are half-open: ``since <= v
< before``. Checked 2026-11-29.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Reading:
    """One place in the file that one range of engine versions reads.

    ``runner`` is vLLM's v1 or v2, or None for any.
    """

    engine: str
    field: str
    offset: int
    source: str
    since: str | None = None
    before: str | None = None
    runner: str | None = None


MEANING = {
    "dflash_config.target_layer_ids": 0,
    "target_layer_ids": 0,
    "dspark_target_layer_ids": 0,
    "eagle_aux_hidden_state_layer_ids": -1,
    "aux_hidden_state_layer_ids": -1,
    "dflash.target_layers": -1,
}
"""What the writer of a field means by a number: add this to get the output layer ``i`` (dflash 0.1.0
``extract_context_feature`` uses ``hidden_states[i + 1]``; speculators converter writes ``i + 1``; GGUF
stores ``i + 1``)."""

READINGS: tuple[Reading, ...] = (
    Reading(
        "dflash",
        "dflash_config.target_layer_ids",
        0,
        "dflash 0.1.0 extract_context_feature: hidden_states[i + 1]",
    ),
    Reading(
        "dflash", "target_layer_ids", 0, "dflash 0.1.0 _draft_value: dflash_config first, then the top level"
    ),
    Reading(
        "vllm", "eagle_aux_hidden_state_layer_ids", -1, "vLLM 0.20.1 gpu_model_runner: read first, used as is"
    ),
    Reading(
        "vllm",
        "aux_hidden_state_layer_ids",
        -1,
        "vLLM speculators/algos.py update_dflash: becomes the eagle list",
    ),
    Reading(
        "vllm",
        "dflash_config.target_layer_ids",
        -1,
        "vllm#40727: before 0.22.0 the ids are used as they are, one layer early",
        before="0.22",
        runner="v1",
    ),
    Reading("vllm", "dflash_config.target_layer_ids", 0, "vllm#40727, in 0.22.0", since="0.22", runner="v1"),
    Reading(
        "vllm",
        "dflash_config.target_layer_ids",
        -1,
        "vllm#40727 reached the V2 runner only with 0.24.0",
        before="0.24",
        runner="v2",
    ),
    Reading("vllm", "dflash_config.target_layer_ids", 0, "vLLM 0.24.0, V2 runner", since="0.24", runner="v2"),
    Reading("vllm", "dspark_target_layer_ids", 0, "vLLM 0.33.0 eagle3_utils.py", since="0.24", runner="v2"),
    Reading("vllm", "target_layer_ids", 0, "vLLM 0.33.0 eagle3_utils.py", since="0.24", runner="v2"),
    Reading(
        "sglang",
        "dflash_config.target_layer_ids",
        0,
        "SGLang 0.5.11 and 0.5.23: captures before layer i + 1",
        since="0.5.11",
    ),
    Reading(
        "sglang",
        "target_layer_ids",
        0,
        "SGLang 0.5.11 dflash_utils: top level after dflash_config",
        since="0.5.11",
    ),
    Reading(
        "llama.cpp",
        "dflash.target_layers",
        -1,
        "ggml-org/llama.cpp#25792: [2,10,18,26,34] stands for 1,9,17,25,33",
    ),
)


@dataclass(frozen=True)
class Ability:
    """What a range of versions does with something other than ids.

    ``value`` is read by the rule that names it.
    """

    engine: str
    topic: str
    value: str
    source: str
    since: str | None = None
    before: str | None = None
    runner: str | None = None


ABILITIES: tuple[Ability, ...] = (
    Ability("vllm", "dflash", "yes", "vllm#36847, present in 0.20.1", since="0.20"),
    Ability("vllm", "dflash", "unknown", "not compared", before="0.20"),
    Ability("sglang", "dflash", "no", "SGLang 0.5.10.post1 has no DFLASH algorithm", before="0.5.11"),
    Ability("sglang", "dflash", "yes", "first compared version with DFLASH", since="0.5.11"),
    Ability("dflash", "dflash", "yes", "dflash 0.1.0"),
    Ability("llama.cpp", "dflash", "yes", "ggml-org/llama.cpp#25792"),
    Ability(
        "vllm",
        "window",
        "ignored",
        "vLLM 0.20.1 and 0.24.0 never read it; vllm#40898 closed unmerged",
        before="0.25",
    ),
    Ability(
        "vllm", "window", "uniform", "vllm#46104; mixed layers need the V2 runner", since="0.25", runner="v1"
    ),
    Ability("vllm", "window", "honoured", "vllm#47914, vllm#48113, in 0.25.0", since="0.25", runner="v2"),
    Ability("sglang", "window", "honoured", "SGLang 0.5.11 and 0.5.23", since="0.5.11"),
    Ability("dflash", "window", "honoured", "dflash 0.1.0 Qwen3DFlashAttention"),
    Ability("vllm", "order", "sorted", "measured on 0.20.1: a reversed list gives identical counters"),
    Ability("sglang", "order", "unknown", "not measured"),
    Ability("dflash", "order", "honoured", "reference loop: reversed list 1.41 instead of 3.96"),
    Ability("vllm", "mask_missing", "refuses", "vLLM 0.20.1: ValueError, draft model config must have ..."),
    Ability("sglang", "mask_missing", "invents", "SGLang adds <|MASK|> to the tokenizer and uses the new id"),
    Ability(
        "vllm",
        "mask_top",
        "unread",
        "vLLM 0.20.1 reads dflash_config, pard_token, ptd_token_id",
        before="0.21",
    ),
    Ability("vllm", "mask_top", "read", "vLLM 0.33.0", since="0.33"),
    Ability("sglang", "mask_top", "unread", "SGLang 0.5.11 dflash_utils: dflash_config only"),
    Ability("dflash", "mask_top", "read", "dflash 0.1.0 _draft_value"),
    Ability("vllm", "mask_range", "crashes", "vLLM 0.20.1: device-side assert at the first request, Xid 43"),
    Ability("sglang", "mask_range", "refuses", "SGLang 0.5.11 and 0.5.23: ValueError"),
    Ability("vllm", "ids_missing", "crashes", "vLLM falls back to the target's three EAGLE-3 layers"),
    Ability("sglang", "ids_missing", "formula", "SGLang 0.5.11 and 0.5.23 use the formula silently"),
    Ability("dflash", "ids_missing", "formula", "dflash 0.1.0 build_target_layer_ids"),
    Ability("vllm", "k", "block - 1", "the anchor is the extra query; block_size is never read by vLLM"),
    Ability("sglang", "k", "block", "SGLang counts the anchor among the draft tokens"),
    Ability(
        "vllm",
        "cache",
        "stale",
        "measured on 0.20.1: the compile cache ignores dflash_config ids",
        before="0.33",
    ),
)

DEFAULT_RUNNER_V2_SINCE = "0.33"
"""vLLM's V2 runner is the default for most models by 0.33.0; VLLM_USE_V2_MODEL_RUNNER overrides."""
