"""Configs of real families with their real sizes, and folders made from them."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

QWEN3_8B = {
    "architectures": ["Qwen3ForCausalLM"],
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
}
QWEN36_27B = {
    "architectures": ["Qwen3_5ForConditionalGeneration"],
    "vision_config": {"hidden_size": 1152},
    "text_config": {
        "hidden_size": 5120,
        "intermediate_size": 17408,
        "num_hidden_layers": 64,
        "num_attention_heads": 24,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "layer_types": ["linear_attention", "linear_attention", "linear_attention", "full_attention"] * 16,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 48,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_conv_kernel_dim": 4,
        "mamba_ssm_dtype": "float32",
        "vocab_size": 248320,
        "max_position_embeddings": 262144,
        "mtp_num_hidden_layers": 1,
    },
}
QWEN36_35B = {
    **QWEN36_27B["text_config"],  # type: ignore[dict-item]
    "hidden_size": 2048,
    "num_hidden_layers": 40,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "layer_types": ["linear_attention", "linear_attention", "linear_attention", "full_attention"] * 10,
    "linear_num_value_heads": 32,
}
DFLASH_27B = {
    "architectures": ["DFlashDraftModel"],
    "hidden_size": 5120,
    "intermediate_size": 17408,
    "num_hidden_layers": 5,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 248320,
    "max_position_embeddings": 262144,
    "layer_types": ["sliding_attention"] * 4 + ["full_attention"],
    "sliding_window": 2048,
    "use_sliding_window": True,
}
DEEPSEEK_V32 = {
    "architectures": ["DeepseekV32ForCausalLM"],
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "index_head_dim": 128,
    "num_nextn_predict_layers": 1,
    "vocab_size": 129280,
    "max_position_embeddings": 163840,
}

Folder = Callable[..., Path]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """Makes a model folder: config, and an index with a total or one safetensors file of given tensors."""

    def make(
        name: str,
        config: Mapping[str, Any],
        *,
        total: int | None = None,
        tensors: Mapping[str, tuple[str, list[int]]] | None = None,
    ) -> Path:
        path = tmp_path / name
        path.mkdir()
        (path / "config.json").write_text(json.dumps(config))
        if total is not None:
            index = {
                "metadata": {"total_size": total},
                "weight_map": {"a": "model-00001-of-00002.safetensors"},
            }
            (path / "model.safetensors.index.json").write_text(json.dumps(index))
        if tensors is not None:
            write_safetensors(path / "model.safetensors", tensors)
        return path

    return make


def write_safetensors(path: Path, tensors: Mapping[str, tuple[str, list[int]]]) -> None:
    """A whole file with holes for data: sparse, so sizes may be real."""
    sizes = {"BF16": 2, "F32": 4, "F8_E4M3": 1}
    header: dict[str, Any] = {}
    at = 0
    for name, (dtype, shape) in tensors.items():
        count = sizes[dtype]
        for extent in shape:
            count *= extent
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + count]}
        at += count
    text = json.dumps(header).encode()
    with path.open("wb") as stream:
        stream.write(struct.pack("<Q", len(text)) + text)
        stream.truncate(8 + len(text) + at)
