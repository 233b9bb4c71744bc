"""What a field that is absent from config.json silently becomes.

Read in transformers 5.6.0 (``configuration_qwen3.py`` and its neighbours, ``modeling_rope_utils.py``); the
values for qwen3 are the same in 4.57. vLLM's own ``set_default_rope_theta(1_000_000)`` does not fire: by then
the key is there. Checked 2026-11-29.
"""

from __future__ import annotations

from collections.abc import Mapping

SOURCE = "transformers 5.6.0"

Default = int | float | bool | str | None

_COMMON: dict[str, Default] = {
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "attention_bias": False,
    "tie_word_embeddings": False,
    "rope_theta": 10000.0,
    "sliding_window": None,
    "use_sliding_window": False,
}

DEFAULTS: Mapping[str, Mapping[str, Default]] = {
    "qwen3": {
        **_COMMON,
        "vocab_size": 151936,
        "hidden_size": 4096,
        "intermediate_size": 22016,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 32,
        "head_dim": 128,
        "max_position_embeddings": 32768,
        "max_window_layers": 28,
    },
    "llama": {
        **_COMMON,
        "vocab_size": 32000,
        "hidden_size": 4096,
        "intermediate_size": 11008,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": None,
        "head_dim": None,
        "max_position_embeddings": 2048,
    },
    "qwen3_5_text": {
        **_COMMON,
        "vocab_size": 248320,
        "hidden_size": 4096,
        "intermediate_size": 12288,
        "num_hidden_layers": 32,
        "num_attention_heads": 16,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "max_position_embeddings": 32768,
    },
}
"""By ``model_type``. None means: taken from other fields (heads for kv heads, hidden / heads for head_dim)
or off."""

SGLANG_BLOCK_SIZE = 16
"""SGLang 0.5.11 and 0.5.23 take this, with a warning, when block_size is absent."""
