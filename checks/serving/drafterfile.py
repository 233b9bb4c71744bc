"""What a drafter's own config (and its tensor list and target's config, where recorded) can contradict.

A small reading for a running service. ``provcheck drafter`` judges the files in full; nothing here replaces it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

SILENT_ROPE = 10_000.0
SILENT_VOCAB = 151_936
_MASK_NAMES = ("mask_token_id", "pard_token", "ptd_token_id", "dspark_noise_token_id")


@dataclass(frozen=True)
class DrafterFacts:
    """Values as configured; None where the file is silent. ``present`` is False when no config was recorded."""

    present: bool = False
    dflash: bool = False
    mask: int | None = None
    eos: tuple[int, ...] = ()
    vocab: int | None = None
    rope: float | None = None
    ids: tuple[int, ...] | None = None
    shifted_ids: tuple[int, ...] | None = None
    layers: int | None = None
    target_layers: int | None = None
    block_size: int | None = None
    windowed: bool = False
    hidden: int | None = None
    tensors: frozenset[str] | None = None
    fc_width: int | None = None
    target_vocab: int | None = None
    target_rope: float | None = None
    target_depth: int | None = None
    target_eos: tuple[int, ...] = ()


def drafter_facts(
    config: dict[str, Any] | None, tensors: dict[str, Any] | None, target: dict[str, Any] | None
) -> DrafterFacts:
    """Reads the three files; values of a wrong type count as absent."""
    config = config or {}
    inner = config.get("dflash_config")
    inner = inner if isinstance(inner, dict) else {}
    target = target or {}
    text = target.get("text_config")
    target = {**target, **text} if isinstance(text, dict) else target
    named = config.get("architectures")
    architectures = " ".join(str(name) for name in named[:20]) if isinstance(named, list) else ""
    kinds = config.get("layer_types")
    return DrafterFacts(
        present=bool(config),
        dflash=bool(inner) or "dflash" in architectures.lower(),
        mask=next(
            (value for name in _MASK_NAMES if (value := _int(inner.get(name, config.get(name)))) is not None),
            None,
        ),
        eos=_ints(config.get("eos_token_id")) or (),
        vocab=_int(config.get("vocab_size")),
        rope=_rope(config),
        ids=_ints(inner.get("target_layer_ids", config.get("target_layer_ids"))),
        shifted_ids=_ints(
            config.get("eagle_aux_hidden_state_layer_ids", config.get("aux_hidden_state_layer_ids"))
        ),
        layers=_int(config.get("num_hidden_layers")),
        target_layers=_int(config.get("num_target_layers")),
        block_size=_int(config.get("block_size", inner.get("block_size"))),
        windowed=isinstance(kinds, list) and "sliding_attention" in kinds,
        hidden=_int(config.get("hidden_size")),
        tensors=frozenset(tensors) if tensors is not None else None,
        fc_width=_fc_width(tensors),
        target_vocab=_int(target.get("vocab_size")),
        target_rope=_rope(target) if target else None,
        target_depth=_int(target.get("num_hidden_layers")),
        target_eos=_ints(target.get("eos_token_id")) or (),
    )


def family_ids(target_layers: int, captured: int) -> tuple[int, ...]:
    """The DFlash family's default layer ids: evenly spaced from 1 to L-3 (dflash 0.1.0 ``build_target_layer_ids``).

    A default, not a law: a published drafter may use others. Needs ``target_layers`` >= 4.
    """
    if captured == 1:
        return (target_layers // 2,)
    return tuple(round(1 + index * (target_layers - 4) / (captured - 1)) for index in range(captured))


def expected_layers(facts: DrafterFacts) -> tuple[int, ...] | None:
    """The ids vLLM must report for this drafter: its layer j is the output of decoder layer j-1, so i becomes i+1."""
    return tuple(number + 1 for number in facts.ids) if facts.ids else None


_ALWAYS = (("fc.weight",), ("hidden_norm.weight",), ("norm.weight",))
_PER_LAYER = (
    ("self_attn.q_proj.weight", "self_attn.qkv_proj.weight"),
    ("self_attn.k_proj.weight", "self_attn.qkv_proj.weight"),
    ("self_attn.v_proj.weight", "self_attn.qkv_proj.weight"),
    ("self_attn.o_proj.weight",),
    ("mlp.gate_proj.weight", "mlp.gate_up_proj.weight"),
    ("mlp.up_proj.weight", "mlp.gate_up_proj.weight"),
    ("mlp.down_proj.weight",),
    ("input_layernorm.weight",),
    ("post_attention_layernorm.weight",),
)


def missing_tensors(facts: DrafterFacts) -> tuple[str, ...]:
    """Tensors that a DFlash checkpoint of this many layers has and this list lacks; empty when not recorded.

    What one layer has, every layer has: norms of queries and keys are wanted where any layer brings them. Quantised
    tensors keep their stem (``q_proj.weight_packed``).
    """
    if facts.tensors is None or not facts.dflash:
        return ()
    stems = {_stem(name.removeprefix("model.")) for name in facts.tensors}
    parts = [tuple(_stem(name) for name in names) for names in _PER_LAYER]
    seen = {".".join(name.split(".")[2:]) for name in stems if name.startswith("layers.")}
    parts += [(part,) for part in ("self_attn.q_norm", "self_attn.k_norm") if part in seen]
    wanted = [tuple(_stem(name) for name in names) for names in _ALWAYS]
    for layer in range(min(facts.layers or 0, 256)):
        wanted += [tuple(f"layers.{layer}.{name}" for name in names) for names in parts]
    return tuple(f"{names[0]}.weight" for names in wanted if not any(name in stems for name in names))


def _stem(name: str) -> str:
    return name.rpartition(".")[0]


def _fc_width(tensors: dict[str, Any] | None) -> int | None:
    for name, entry in (tensors or {}).items():
        if name.endswith("fc.weight"):
            shape = entry.get("shape") if isinstance(entry, dict) else entry
            if isinstance(shape, list) and len(shape) == 2:
                return _int(shape[1])
    return None


def _rope(config: dict[str, Any]) -> float | None:
    inner = config.get("rope_parameters")
    value = config.get("rope_theta")
    if value is None and isinstance(inner, dict):
        value = inner.get("rope_theta")
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e15:
        return None
    return float(value)


def _int(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**12 else None


def _ints(value: Any) -> tuple[int, ...] | None:
    items = value if isinstance(value, list) else [value]
    if not 0 < len(items) <= 1024 or not all(_int(item) is not None for item in items):
        return None
    return tuple(items)
