"""What the tensors of EAGLE drafters and ordinary draft models tell: what is missing, and sizes for the config.

EAGLE-3 is one decoder layer whose q, k and v take embedding and hidden state side by side, behind an ``fc`` over
three layers of the target; published under ``midlayer.`` or ``layers.0.`` (SafeAILab/EAGLE, SpecForge, speculators).
An ordinary draft model is judged tensor by tensor only where every layer of its type has the same ones. Pure.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from checks.drafter.config import ModelConfig
from checks.drafter.weights import plain_names
from checks.safetensors import Tensor

UNIFORM = frozenset({"llama", "mistral", "qwen2", "qwen3"})
"""Types of which every layer holds the same tensors (transformers 5.6.0, modeling_llama.py and its neighbours)."""
WHOLE = frozenset({"BF16", "F16", "F32", "F8_E4M3", "F8_E5M2"})
"""Types in which a tensor has the shape of its layer; packed ones have another."""
ATTENTION = tuple(f"self_attn.{part}_proj.weight" for part in "qkvo")
MLP = tuple(f"mlp.{part}_proj.weight" for part in ("gate", "up", "down"))
NORMS = ("input_layernorm.weight", "post_attention_layernorm.weight")
_NUMBERED = re.compile(r"(?:^|\.)(?:layers|h|blocks)\.(\d{1,4})\.(.+)$")
_ELSEWHERE = re.compile(r"visual|vision|audio|encoder")
_LORA = re.compile(r"\.lora_[AB]\b")


def is_adapter(tensors: Mapping[str, Tensor]) -> bool:
    """Whether these are changes to a model (LoRA) and no model."""
    return any(_LORA.search(name) for name in tensors)


def missing_of_eagle(kind: str, tensors: Mapping[str, Tensor], config: ModelConfig | None) -> list[str]:
    """What an EAGLE drafter must have and this file lacks. Attention and experts of another make are not named."""
    names = plain_names(tensors)
    inner = [name for name in names if name.startswith("layers.0.")]
    wanted = ["fc.weight"]
    if not any(f".{other}" in name for name in inner for other in ("q_a_proj", "kv_a_proj", "qkv_proj")):
        wanted += [f"layers.0.{part}" for part in ATTENTION]
    if not any(word in name for name in inner for word in ("expert", "gate_up_proj")):
        wanted += [f"layers.0.{part}" for part in MLP]
    if kind == "eagle3":
        wanted += ["norm.weight", *(f"layers.0.{part}" for part in (*NORMS, "hidden_norm.weight"))]
        if config is not None and config.draft_vocab is not None and config.draft_vocab != config.vocab:
            wanted.append("lm_head.weight")
    return [name for name in wanted if not _there(name, names)]


def missing_of_model(tensors: Mapping[str, Tensor], config: ModelConfig | None) -> list[str]:
    """What an ordinary draft model must have and this file lacks: whole layers, and in types whose layers are all
    alike each tensor of a layer."""
    names = plain_names(tensors)
    layers: dict[int, set[str]] = {}
    for name in names:
        if (match := _NUMBERED.search(name)) and not _ELSEWHERE.search(name):
            layers.setdefault(int(match[1]), set()).add(match[2])
    count = config.layers if config is not None and config.layers is not None else 0
    gone = (
        [f"layer {n}" for n in range(max(count, max(layers, default=-1) + 1)) if n not in layers]
        if layers
        else []
    )
    if config is None or config.model_type not in UNIFORM:
        return gone
    usual = Counter(part for parts in layers.values() for part in parts if part.endswith(".weight"))
    common = {part for part, times in usual.items() if 2 * times > len(layers)} | {*ATTENTION, *MLP, *NORMS}
    gone += [
        f"layers.{n}.{part}"
        for n, parts in sorted(layers.items())
        for part in sorted(common)
        if not _there(f"layers.{n}.{part}", {f"layers.{n}.{one}" for one in parts})
    ]
    gone += [name for name in ("embed_tokens.weight", "norm.weight") if not _there(name, names)]
    if config.tie is not True and not _there("lm_head.weight", names):
        gone.append("lm_head.weight")
    return gone


def _there(name: str, names: Mapping[str, Tensor] | set[str]) -> bool:
    stem = name.removesuffix("weight")
    return any(one in names for one in (name, f"{stem}weight_packed", f"{stem}qweight"))


def sizes(tensors: Mapping[str, Tensor], config: ModelConfig) -> list[tuple[str, int, int]]:
    """Field, what the config makes of it, what the tensors are, for each that differs. Rows of q_proj and k_proj
    stand for heads x head_dim, because a head's width is in no shape."""
    names = {n: t.shape for n, t in plain_names(tensors).items() if t.dtype in WHOLE}
    numbers = [int(match[1]) for name in names if (match := _NUMBERED.search(name))]
    heads = config.heads
    width = config.head_dim or (config.hidden // heads if config.hidden and heads else None)
    kv = config.kv_heads or heads
    found = {
        "hidden_size": (config.hidden, _extent(names, "norm.weight", 0)),
        "intermediate_size": (config.intermediate, _extent(names, "layers.0.mlp.gate_proj.weight", 0)),
        "num_hidden_layers": (config.layers, max(numbers) + 1 if numbers else None),
        "num_attention_heads x head_dim": (
            heads * width if heads and width else None,
            _extent(names, "layers.0.self_attn.q_proj.weight", 0),
        ),
        "num_key_value_heads x head_dim": (
            kv * width if kv and width else None,
            _extent(names, "layers.0.self_attn.k_proj.weight", 0),
        ),
    }
    return [(name, a, b) for name, (a, b) in found.items() if a is not None and b is not None and a != b]


def _extent(shapes: Mapping[str, tuple[int, ...]], name: str, axis: int) -> int | None:
    shape = shapes.get(name, ())
    return shape[axis] if len(shape) > axis else None


def tables(tensors: Mapping[str, Tensor]) -> tuple[int | None, int | None, int | None]:
    """Rows of ``d2t`` (drafted id -> id of the target), of ``t2d`` (which ids of the target are drafted) and of
    ``lm_head``."""
    names = {name: tensor.shape for name, tensor in plain_names(tensors).items()}
    return _extent(names, "d2t", 0), _extent(names, "t2d", 0), _extent(names, "lm_head.weight", 0)
