"""Makes a tiny model folder in the form of a published one: a random Qwen3 of two layers and 512 words."""

from __future__ import annotations

import array
import hashlib
import itertools
import json
import sys
from pathlib import Path
from typing import Any

from provision.stack.manifest import digest, manifest

from .files import write_whole

SPECIAL = ("<|endoftext|>", "<|unk|>", "<|mask|>")
VOCAB, HIDDEN, LAYERS, HEADS, KV_HEADS, HEAD_DIM, MLP = 512, 32, 2, 4, 2, 8, 64
# bfloat16: sign and mantissa of a random number, with the exponent of 2**-6, the size of usual weights.
KEEP, EXPONENT, ONE = 0x807F, 121 << 7, 0x3F80


def make_model(dest: Path, seed: int = 0) -> str:
    """Writes the model into ``dest`` (made if absent) and returns its content digest, the revision.

    The bytes depend on ``seed`` alone. Raises ``FileExistsError`` when ``dest`` already holds something.
    """
    dest.mkdir(parents=True, exist_ok=True)
    if any(dest.iterdir()):
        raise FileExistsError(f"{dest} is not empty: a model is written into a new folder only")
    for name, value in {
        "config.json": _config(),
        "generation_config.json": {"eos_token_id": 0, "pad_token_id": 0, "do_sample": False},
        "tokenizer.json": _tokenizer(),
        "tokenizer_config.json": _tokenizer_config(),
    }.items():
        write_whole(dest / name, (json.dumps(value, indent=2) + "\n").encode())
    write_whole(dest / "model.safetensors", safetensors(tensors(seed)))
    return digest(manifest(dest))


def shapes() -> dict[str, list[int]]:
    """Name -> shape of every tensor that a tied two-layer Qwen3 has."""
    found = {"model.embed_tokens.weight": [VOCAB, HIDDEN], "model.norm.weight": [HIDDEN]}
    for layer in range(LAYERS):
        for name, shape in {
            "input_layernorm": [HIDDEN],
            "post_attention_layernorm": [HIDDEN],
            "self_attn.q_proj": [HEADS * HEAD_DIM, HIDDEN],
            "self_attn.k_proj": [KV_HEADS * HEAD_DIM, HIDDEN],
            "self_attn.v_proj": [KV_HEADS * HEAD_DIM, HIDDEN],
            "self_attn.o_proj": [HIDDEN, HEADS * HEAD_DIM],
            "self_attn.q_norm": [HEAD_DIM],
            "self_attn.k_norm": [HEAD_DIM],
            "mlp.gate_proj": [MLP, HIDDEN],
            "mlp.up_proj": [MLP, HIDDEN],
            "mlp.down_proj": [HIDDEN, MLP],
        }.items():
            found[f"model.layers.{layer}.{name}.weight"] = shape
    return dict(sorted(found.items()))


def tensors(seed: int) -> dict[str, tuple[list[int], bytes]]:
    """Name -> shape and bfloat16 bytes: norms are one, everything else is noise from ``seed``."""
    made = {}
    for name, shape in shapes().items():
        if len(shape) == 1:
            words = array.array("H", [ONE] * shape[0])
        else:
            noise = hashlib.shake_256(f"{seed}:{name}".encode()).digest(2 * shape[0] * shape[1])
            words = array.array("H", noise)
            if sys.byteorder == "big":
                words.byteswap()
            words = array.array("H", (word & KEEP | EXPONENT for word in words))
        if sys.byteorder == "big":
            words.byteswap()
        made[name] = (shape, words.tobytes())
    return made


def safetensors(entries: dict[str, tuple[list[int], bytes]]) -> bytes:
    """The file of ``entries``: header length (8 bytes, little endian), JSON header, data without gaps."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    position = 0
    for name, (shape, data) in entries.items():
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [position, position + len(data)]}
        position += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    # Spaces at its end put the data on a multiple of eight, as the format recommends.
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + b"".join(data for _, data in entries.values())


def vocabulary() -> dict[str, int]:
    """The special tokens, then words of two syllables."""
    syllables = ["".join(pair) for pair in itertools.product("bdfgklmnprstvz", "aeiou")]
    pairs = (first + second for first, second in itertools.product(syllables, syllables[::3]))
    words = [*SPECIAL, *itertools.islice(pairs, 0, 3 * (VOCAB - len(SPECIAL)), 3)]
    return {word: index for index, word in enumerate(words)}


def _config() -> dict[str, Any]:
    return {
        "architectures": ["Qwen3ForCausalLM"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": 0,
        "eos_token_id": 0,
        "head_dim": HEAD_DIM,
        "hidden_act": "silu",
        "hidden_size": HIDDEN,
        "initializer_range": 0.02,
        "intermediate_size": MLP,
        "max_position_embeddings": 4096,
        "max_window_layers": LAYERS,
        "model_type": "qwen3",
        "num_attention_heads": HEADS,
        "num_hidden_layers": LAYERS,
        "num_key_value_heads": KV_HEADS,
        "rms_norm_eps": 1e-06,
        "rope_scaling": None,
        "rope_theta": 1000000.0,
        "sliding_window": None,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "use_cache": True,
        "use_sliding_window": False,
        "vocab_size": VOCAB,
    }


def _tokenizer() -> dict[str, Any]:
    vocab = vocabulary()
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": vocab[token], "content": token, **flags} for token in SPECIAL],
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": vocab, "unk_token": SPECIAL[1]},
    }


def _tokenizer_config() -> dict[str, Any]:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": SPECIAL[0],
        "pad_token": SPECIAL[0],
        "unk_token": SPECIAL[1],
        "mask_token": SPECIAL[2],
        "model_max_length": 4096,
        "clean_up_tokenization_spaces": False,
        "chat_template": "{% for m in messages %}{{ m.role }} {{ m.content }} {% endfor %}",
    }
