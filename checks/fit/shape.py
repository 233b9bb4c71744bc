"""What a config.json says about layers and caches. A kind of layer that is not understood is said, never guessed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from checks.errors import BadInput

MAX_LAYERS = 2000
FULL, SLIDING, CHUNKED, RECURRENT, NONE = "full", "sliding", "chunked", "recurrent", "none"

KINDS = {
    "full_attention": FULL,
    "attention": FULL,
    "global": FULL,
    "sliding_attention": SLIDING,
    "chunked_attention": CHUNKED,
    "linear_attention": RECURRENT,
    "mamba": RECURRENT,
    "mamba2": RECURRENT,
}
"""Words of ``layer_types`` and ``layers_block_type`` (transformers 5.6, configuration files of the families)."""

SERVED = 2
"""Bytes of a number that is not quantised: float32 checkpoints too are served in half precision (``--dtype auto``)."""

UNREAD = (
    "hybrid_override_pattern",
    "linear_attn_config",
    "attn_layer_indices",
    "compress_ratios",
    "block_types",
)
"""Keys of layer schemes that this table does not read (Nemotron-H, Kimi Linear, Bamba, DeepSeek V4, RecurrentGemma)."""


@dataclass(frozen=True)
class Layer:
    """One layer's cache. ``window`` in tokens; ``heads`` are key/value heads before sharding."""

    kind: str
    heads: int = 0
    head_dim: int = 0
    value_dim: int = 0
    window: int | None = None


@dataclass(frozen=True)
class Latent:
    """Multi-head latent attention: one vector per token and layer, the same on every rank; index key if sparse."""

    width: int
    index_width: int = 0


@dataclass(frozen=True)
class Recurrent:
    """Gated DeltaNet state per layer and request, sharded by heads (vLLM ``gated_delta_net_state_shape``).

    ``state_bytes`` of one number of the recurrent state; None: the config leaves it to the engine.
    """

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    kernel: int
    state_bytes: int | None


@dataclass(frozen=True)
class Shape:
    """A model as far as memory is concerned. ``unread`` names what keeps the cache from being computed."""

    architecture: str
    hidden: int
    intermediate: int
    vocab: int
    heads: int
    kv_heads: int
    layers: tuple[Layer, ...]
    latent: Latent | None
    recurrent: Recurrent | None
    dtype_bytes: int
    max_positions: int | None
    multimodal: bool
    mtp_layers: int
    quantization: str | None
    unread: tuple[str, ...] = ()


def text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The language model's part of a config that may nest it (``text_config``, ``llm_config``)."""
    for key in ("text_config", "llm_config", "language_config"):
        inner = config.get(key)
        if isinstance(inner, dict) and "hidden_size" in inner:
            return {**config, **inner}
    return config


def number(config: Mapping[str, Any], *keys: str, default: int | None = None, most: int = 1 << 40) -> int:
    """The first of these keys that is there, as a whole number in bounds. Raises BadInput."""
    for key in keys:
        value = config.get(key)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= most:
            raise BadInput(f"config.json says {key} = {str(value)[:40]}, which is no size; download it again")
        return value
    if default is None:
        raise BadInput(
            f"config.json has no {keys[0]}: it is not the config of a language model, or incomplete"
        )
    return default


def read_shape(config: Mapping[str, Any]) -> Shape:
    """A config as a Shape. Raises BadInput when a size is missing or impossible."""
    text = text_config(config)
    count = number(text, "num_hidden_layers", "n_layer", most=MAX_LAYERS)
    hidden = number(text, "hidden_size", "n_embd", most=1 << 20)
    heads = number(text, "num_attention_heads", "n_head", most=1 << 14)
    kv_heads = number(text, "num_key_value_heads", "num_kv_heads", default=heads, most=1 << 14)
    head_dim = number(text, "head_dim", default=max(hidden // heads, 1), most=1 << 16)
    names = config.get("architectures")
    unread = [key for key in UNREAD if text.get(key)]
    kinds = _kinds(text, count, unread)
    recurrent = _recurrent(text, unread) if RECURRENT in kinds else None
    layers = tuple(_layer(text, kind, kv_heads, head_dim, unread) for kind in kinds)
    shared = text.get("num_kv_shared_layers")
    if isinstance(shared, int) and 0 < shared < count:
        layers = (*layers[: count - shared], *(Layer(NONE) for _ in range(shared)))
    quantization = text.get("quantization_config")
    method = quantization.get("quant_method") if isinstance(quantization, dict) else None
    return Shape(
        architecture=str(names[0])[:80] if isinstance(names, list) and names else "",
        hidden=hidden,
        intermediate=number(
            text, "moe_intermediate_size", "intermediate_size", default=4 * hidden, most=1 << 22
        ),
        vocab=number(text, "vocab_size", default=1, most=1 << 24),
        heads=heads,
        kv_heads=kv_heads,
        layers=layers,
        latent=_latent(text),
        recurrent=recurrent,
        dtype_bytes=SERVED,
        max_positions=_positions(text),
        multimodal=isinstance(config.get("vision_config"), dict),
        mtp_layers=_mtp_layers(text),
        quantization=str(method)[:40] if method else None,
        unread=tuple(dict.fromkeys(unread)),
    )


def _positions(text: Mapping[str, Any]) -> int | None:
    """The longest context, scaled as vLLM scales it (``_get_and_verify_max_len``, vllm/config/model.py 0.20.1)."""
    plain = [
        number(text, key) for key in ("max_position_embeddings", "n_positions") if text.get(key) is not None
    ]
    if not plain:
        return None
    rope = text.get("rope_parameters") or text.get("rope_scaling")
    found = rope if isinstance(rope, dict) else {}
    groups = list(found.values()) if found and all(isinstance(v, dict) for v in found.values()) else [found]
    longest = plain[0]
    for group in groups:
        kind = group.get("rope_type", group.get("type"))
        if kind in (None, "default", "su", "longrope", "llama3") or "gemma3" in str(text.get("model_type")):
            continue
        factor, original = group.get("factor"), group.get("original_max_position_embeddings")
        if isinstance(factor, (int, float)) and 1 <= factor <= 1024:
            longest = int((original if kind == "yarn" and isinstance(original, int) else plain[0]) * factor)
    return max(longest, 1)


def _mtp_layers(text: Mapping[str, Any]) -> int:
    keys = ("mtp_num_hidden_layers", "num_nextn_predict_layers")
    return number(text, *keys, default=0, most=64) if any(text.get(key) for key in keys) else 0


def _kinds(text: Mapping[str, Any], count: int, unread: list[str]) -> list[str]:
    """The kind of every layer: as listed, else by the family's rule, else full attention."""
    listed = text.get("layer_types") or text.get("layers_block_type")
    if isinstance(listed, list):
        if len(listed) != count:
            raise BadInput(
                f"config.json lists {len(listed)} layer types for {count} layers; download it again"
            )
        unread += [f"layer type {str(word)[:40]}" for word in listed if str(word) not in KINDS]
        return [KINDS.get(str(word), FULL) for word in listed]
    if "linear_num_value_heads" in text:
        interval = number(text, "full_attention_interval", default=4, most=MAX_LAYERS)
        return [FULL if (i + 1) % interval == 0 else RECURRENT for i in range(count)]
    if not isinstance(text.get("sliding_window"), int) or text.get("use_sliding_window") is False:
        return [FULL] * count
    pattern = text.get("sliding_window_pattern") or text.get("_sliding_window_pattern")
    if isinstance(pattern, int) and pattern > 0:
        return [FULL if (i + 1) % pattern == 0 else SLIDING for i in range(count)]
    if "max_window_layers" in text:
        first = (
            number(text, "max_window_layers", default=count, most=MAX_LAYERS)
            if text["max_window_layers"]
            else 0
        )
        return [SLIDING if i >= first else FULL for i in range(count)]
    if str(text.get("model_type", "")).startswith("gemma2"):
        return [FULL if i % 2 else SLIDING for i in range(count)]
    return [SLIDING] * count


def _layer(text: Mapping[str, Any], kind: str, kv_heads: int, head_dim: int, unread: list[str]) -> Layer:
    if kind == RECURRENT:
        return Layer(RECURRENT)
    if kind == FULL:
        # Gemma 4: the global layers have heads of their own (num_global_key_value_heads, global_head_dim).
        kv_heads = number(text, "num_global_key_value_heads", default=kv_heads, most=1 << 14)
        head_dim = number(text, "global_head_dim", default=head_dim, most=1 << 16)
    window = None
    if kind in (SLIDING, CHUNKED):
        key = "sliding_window" if kind == SLIDING else "attention_chunk_size"
        if not isinstance(text.get(key), int):
            unread.append(f"{kind} layers without {key}")
        window = number(text, key, default=1) if isinstance(text.get(key), int) else None
    value_dim = head_dim
    if isinstance(text.get("v_head_dim"), int) and "kv_lora_rank" not in text:
        value_dim = number(text, "v_head_dim", default=head_dim, most=1 << 16)
    return Layer(kind, kv_heads, head_dim, value_dim, window)


def _latent(text: Mapping[str, Any]) -> Latent | None:
    if not isinstance(text.get("kv_lora_rank"), int):
        return None
    width = number(text, "kv_lora_rank", most=1 << 16) + number(
        text, "qk_rope_head_dim", default=64, most=1 << 12
    )
    index = number(text, "index_head_dim", default=0, most=1 << 12) if text.get("index_head_dim") else 0
    return Latent(width, index)


def _recurrent(text: Mapping[str, Any], unread: list[str]) -> Recurrent | None:
    if "linear_num_value_heads" not in text:
        unread.append("recurrent layers other than Gated DeltaNet")
        return None
    single = {"float32": 4, "bfloat16": 2, "float16": 2}
    return Recurrent(
        number(text, "linear_num_key_heads", most=1 << 12),
        number(text, "linear_num_value_heads", most=1 << 12),
        number(text, "linear_key_head_dim", most=1 << 12),
        number(text, "linear_value_head_dim", most=1 << 12),
        number(text, "linear_conv_kernel_dim", default=4, most=64),
        single.get(str(text.get("mamba_ssm_dtype"))),
    )


def undivided(shape: Shape, tp: int) -> list[str]:
    """What ``tp`` ranks cannot share evenly: heads of attention and of recurrent layers, key/value heads."""
    sizes = {"attention heads": shape.heads}
    if shape.recurrent:
        sizes |= {"key heads": shape.recurrent.key_heads, "value heads": shape.recurrent.value_heads}
    out = [f"{count} {name} do not divide by {tp}" for name, count in sizes.items() if count % tp]
    if not shape.latent and shape.kv_heads % tp and tp % shape.kv_heads:
        out.append(f"{shape.kv_heads} key/value heads and {tp} ranks: neither divides the other")
    return out
