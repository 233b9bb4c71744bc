"""One meaning, two engines: where each says it, how it is made comparable, and what a difference is worth.

``vllm`` and ``sglang`` are names as they stand in the engine's log line, ``/server_info`` or command line, first
hit wins. ``read`` names the conversion in :mod:`checks.serving.settings`. ``effect`` orders a comparison:
3 = has cost more than half the speed in a recorded case, 2 = tens of percent, 1 = percents, 0 = told, not ranked.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SettingRow:
    key: str
    meaning: str
    vllm: tuple[str, ...]
    sglang: tuple[str, ...]
    read: str
    effect: int
    port: str
    source: str


_SRC = "vLLM 0.20.1/0.33.0 and SGLang 0.5.11/0.5.23 argument definitions"
_ABL = "measured on an H200 with vLLM 0.20.1"

SETTINGS: tuple[SettingRow, ...] = (
    SettingRow("method", "speculation method", ("speculative_config.method", "method"), ("speculative_algorithm",),
               "method", 3, "a method is worth what its acceptance length gives on this engine: measure before adopting",
               "SGLang EAGLE without a draft model is the target's own MTP head"),
    SettingRow("k", "drafted tokens per step", ("speculative_config.num_speculative_tokens", "num_spec_tokens",
               "num_speculative_tokens"), ("speculative_num_draft_tokens",), "k", 2,
               "vLLM counts drafts only, SGLang counts the anchor too: 4 there is k=3 here", "SGLang num_draft_tokens = steps + 1"),
    SettingRow("drafter", "drafter", ("speculative_config.model",), ("speculative_draft_model_path",), "text", 3,
               "same drafter, same revision: compare config.json and the tensor list", _SRC),
    SettingRow("topk", "draft branches", (), ("speculative_eagle_topk",), "integer", 1, "vLLM drafts one branch", _SRC),
    SettingRow("cuda_graphs", "CUDA graphs", ("enforce_eager",), ("disable_cuda_graph",), "negated", 3,
               "keep graphs on: drop --enforce-eager / --disable-cuda-graph", _ABL + ": 0.22x to 0.48x without"),
    SettingRow("tp", "tensor parallel GPUs", ("tensor_parallel_size",), ("tp_size", "tp"), "integer", 3,
               "--tensor-parallel-size N / --tp N", _SRC),
    SettingRow("pp", "pipeline stages", ("pipeline_parallel_size",), ("pp_size",), "integer", 2,
               "--pipeline-parallel-size / --pp-size", _SRC),
    SettingRow("dp", "data parallel replicas", ("data_parallel_size",), ("dp_size",), "integer", 1, "--data-parallel-size / --dp-size", _SRC),
    SettingRow("custom_all_reduce", "custom all-reduce", ("disable_custom_all_reduce",), ("disable_custom_all_reduce",),
               "negated", 2, "drop --disable-custom-all-reduce where `provcheck nccl` proves peer access", _SRC),
    SettingRow("env.NCCL_P2P_DISABLE", "NCCL peer access", ("env.NCCL_P2P_DISABLE",), ("env.NCCL_P2P_DISABLE",), "text", 2,
               "unset it where `provcheck nccl` proves peer access; set it where peer access hangs", "noonghunna/club-3090"),
    SettingRow("quantization", "weight quantisation", ("quantization",), ("quantization",), "text", 3,
               "same checkpoint and quantisation, or speed and answers differ", _SRC),
    SettingRow("dtype", "compute type", ("dtype",), ("dtype",), "dtype", 1, "--dtype", _SRC),
    SettingRow("kv_cache_dtype", "KV cache type", ("kv_cache_dtype",), ("kv_cache_dtype",), "dtype", 1, "--kv-cache-dtype on both", _SRC),
    SettingRow("attention_backend", "attention backend", ("attention_backend",), ("attention_backend",), "backend", 2,
               "--attention-backend on both; the names differ", _SRC),
    SettingRow("overlap", "overlapped scheduling", ("async_scheduling",), ("disable_overlap_schedule",), "overlap", 2,
               "--async-scheduling / drop --disable-overlap-schedule (SGLang spec v1 disables it)", _SRC),
    SettingRow("spec_v2", "speculation worker v2", (), ("env.SGLANG_ENABLE_SPEC_V2",), "text", 2,
               "SGLang 0.5.10 needs SGLANG_ENABLE_SPEC_V2=1; 0.5.11 has it on; 0.5.23 knows no other", _SRC),
    SettingRow("runner", "model runner", ("runner",), (), "text", 2, "VLLM_USE_V2_MODEL_RUNNER=0 or 1", "vllm#49559, vllm#47914"),
    SettingRow("prefix_caching", "prefix cache", ("enable_prefix_caching",), ("disable_radix_cache",), "prefix", 1,
               "--enable-prefix-caching / drop --disable-radix-cache", _SRC),
    SettingRow("mamba", "linear-attention cache", ("mamba_cache_mode",), ("mamba_scheduler_strategy", "mamba_radix_cache_strategy"),
               "text", 1, "SGLang extra_buffer is needed for MTP; renamed in 0.5.14 or later", "sgl-cookbook 7b5bd9c"),
    SettingRow("max_len", "context length", ("max_seq_len", "max_model_len"), ("context_length", "max_total_num_tokens"),
               "integer", 1, "--max-model-len / --context-length", _SRC),
    SettingRow("max_seqs", "requests at once", ("max_num_seqs",), ("max_running_requests",), "integer", 1,
               "--max-num-seqs / --max-running-requests (SGLang DFLASH resets it to 48)", _SRC),
    SettingRow("prefill_chunk", "prefill chunk, tokens", ("max_num_batched_tokens",), ("chunked_prefill_size",), "integer", 1,
               "--max-num-batched-tokens / --chunked-prefill-size", _SRC),
    SettingRow("memory", "memory share", ("gpu_memory_utilization",), ("mem_fraction_static",), "number", 0,
               "not the same fraction: vLLM counts everything, SGLang weights and KV only", _SRC),
    SettingRow("page", "KV page, tokens", ("block_size",), ("page_size",), "integer", 0, "--block-size / --page-size", _SRC),
    SettingRow("reasoning_parser", "reasoning parser", ("reasoning_parser",), ("reasoning_parser",), "text", 1,
               "--reasoning-parser on both: without it reasoning arrives as content", _SRC),
    SettingRow("tool_parser", "tool-call parser", ("tool_call_parser",), ("tool_call_parser",), "text", 0, "--tool-call-parser on both", _SRC),
    SettingRow("compile", "torch.compile", ("compile_mode",), ("enable_torch_compile",), "text", 1, "vLLM compiles by default, SGLang does not", _SRC),
    SettingRow("env.NCCL_ALGO", "NCCL algorithm", ("env.NCCL_ALGO",), ("env.NCCL_ALGO",), "text", 1, "environment", _SRC),
    SettingRow("env.NCCL_PROTO", "NCCL protocol", ("env.NCCL_PROTO",), ("env.NCCL_PROTO",), "text", 1, "environment", _SRC),
    SettingRow("env.NCCL_SHM_DISABLE", "NCCL shared memory", ("env.NCCL_SHM_DISABLE",), ("env.NCCL_SHM_DISABLE",), "text", 2, "environment", _SRC),
    SettingRow("env.CUDA_VISIBLE_DEVICES", "visible GPUs", ("env.CUDA_VISIBLE_DEVICES",), ("env.CUDA_VISIBLE_DEVICES",), "text", 1, "environment", _SRC),
    SettingRow("cpus", "CPUs allowed", ("cpus",), ("cpus",), "integer", 2, "give the engine whole cores of its own", _ABL + ": 0.26x on one shared core"),
    SettingRow("model", "model", ("model",), ("model_path",), "text", 3, "same weights at the same revision", _SRC),
    SettingRow("nccl", "NCCL", ("nccl",), ("nccl",), "text", 0, "bundled with torch", _SRC),
)  # fmt: skip

SGLANG_METHODS = {"EAGLE": "eagle", "EAGLE3": "eagle3", "NEXTN": "mtp", "DFLASH": "dflash", "STANDALONE": "draft_model",
                  "NGRAM": "ngram"}  # fmt: skip

BACKENDS = {"FLASH_ATTN": "flashattention", "FA3": "flashattention", "FLASHINFER": "flashinfer", "TRITON_ATTN": "triton",
            "TRITON": "triton", "FLEX_ATTENTION": "flex", "XFORMERS": "xformers", "TORCH_NATIVE": "torch"}  # fmt: skip
