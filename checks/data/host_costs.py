"""What one step of an engine costs its host, and how large a model can be by what a record tells of it.

A step is launches and Python on the host, and reading the weights on the GPU. Of a model that is read in a fraction of
a millisecond the rest is the host's, so a record of a small model shows a starved CPU without any baseline. The rows
are upper bounds on purpose: what they do not cover stays "not knowable".
"""

from __future__ import annotations

TOKEN_MS = 1.5
"""One step without speculation, CUDA graphs on (vLLM 0.20.1 on an H200's host, 11.5 M parameters: 1.49)."""

PARALLEL_DRAFT_MS = 4.5
"""One step with a drafter that drafts all tokens in one pass (the same: 4.0 to 5.5)."""

PASS_MS = 1.8
"""One of the k + 1 passes of a step with an ordinary draft model (the same: 10.8 for k = 5)."""

SLOW_HOST = 2.5
"""A host is not called starved before it is so many times slower: the recorded starved ones were 3.8 and 3.9, the
slowest healthy one 1.2."""

HOPPER_BYTES_PER_S = 2.0e12
"""Memory bandwidth of the slowest Hopper board (H100 PCIe). vLLM takes FlashAttention 3 on Hopper only (vLLM 0.20.1
``fa_utils.py``: compute capability 9)."""

ANY_BYTES_PER_S = 2.0e11
"""Where the GPU is not known: below every board with CUDA graphs worth the name (RTX 3050: 224 GB/s)."""

DENSE = frozenset(
    {"Qwen2ForCausalLM", "Qwen3ForCausalLM", "LlamaForCausalLM", "MistralForCausalLM", "Phi3ForCausalLM"}
)
"""Architectures in which every layer keeps keys and values and every weight is read for every token."""

SMALL_KV_BYTES = 32_768
WEIGHTS_PER_KV_BYTE = 150_000
"""A dense model that keeps under 32 KiB of keys and values per token has at most so many bytes of weights for each of
them: 108,000 in Qwen2.5-1.5B (28,672 bytes a token), 80,000 in Qwen2.5-0.5B, 12,000 in SmolLM2-135M."""

WIDEST_LAYER = 32
"""Parameters of a layer over the square of its width, at most: attention 8, an MLP of eight times the width 24."""
