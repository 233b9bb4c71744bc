"""Composes the config.json that a drafter should have on one engine version, each value with its origin.

Pure.

What weights, target, published family and relatives say is taken; what nobody says is not invented. The usual
spacing of layer ids is the one exception, and it is marked as what it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from checks.drafter.case import FORMULA, Case, Known
from checks.drafter.rules import ids as id_rules
from checks.drafter.rules import mask as mask_rules

_TORCH = {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}
_OWN_KEYS = (
    "speculators_config",
    "speculators_model_type",
    "speculators_version",
    "transformer_layer_config",
)


@dataclass(frozen=True)
class Composed:
    """A config with the origin of every value, or the reasons why there is none."""

    content: Mapping[str, Any] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)
    refusals: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def compose(case: Case, original: Mapping[str, Any] | None = None) -> Composed:
    """The config for this engine. ``original`` is the config.json that is there; its other keys are kept."""
    shape, goal, expected = case.shape, case.goal, case.expected
    refusals = _refusals(case)
    ids, mask, theta = _ids(case), _mask(case), _theta(case)
    if refusals or shape is None or ids is None or mask is None or theta is None:
        return Composed(refusals=tuple(refusals))
    notes: list[str] = []
    made: dict[str, Known] = {
        "architectures": Known(["DFlashDraftModel"], "weights", "tensor names"),
        "model_type": Known("qwen3", "weights", "tensor names"),
        "hidden_size": Known(shape.hidden, "weights", ""),
        "intermediate_size": Known(shape.intermediate, "weights", ""),
        "num_hidden_layers": Known(shape.layers, "weights", ""),
        "num_attention_heads": Known(shape.heads, "weights", ""),
        "num_key_value_heads": Known(shape.kv_heads, "weights", ""),
        "head_dim": Known(shape.head_dim, "weights", ""),
        "attention_bias": Known(shape.bias, "weights", ""),
        "dtype": Known(_TORCH.get(shape.dtype or "", "bfloat16"), "weights", ""),
        "vocab_size": Known(goal.vocab, "target", ""),
        "num_target_layers": Known(goal.layers, "target", ""),
        "rope_theta": theta,
        "dflash_config.mask_token_id": mask,
        "dflash_config.target_layer_ids": Known(list(ids.value), ids.origin, ids.source),
    }
    optional: dict[str, Known | None] = {
        "rms_norm_eps": expected.eps,
        "hidden_act": _from(goal.act, "target"),
        "max_position_embeddings": _from(goal.max_positions, "target"),
        "eos_token_id": _from(goal.eos[0] if goal.eos else None, "target"),
        "bos_token_id": _from(goal.bos[0] if goal.bos else None, "target"),
        "block_size": expected.block or _from(case.config.block if case.config else None, "config"),
    }
    for name, known in optional.items():
        if known is not None:
            made[name] = known
        elif name in {"block_size", "rms_norm_eps"}:
            notes.append(f"{name} is known from nobody and left out")
    made.update(_window(case, notes))
    if _shifts(case):
        made["eagle_aux_hidden_state_layer_ids"] = Known(
            [n + 1 for n in ids.value], ids.origin, f"shifted for {case.engine}"
        )
    return Composed(
        _nested(made, original), {name: known.origin for name, known in made.items()}, (), tuple(notes)
    )


def _refusals(case: Case) -> list[str]:
    """Every reason at once why no config is written."""
    reasons: list[str] = []
    if case.kind != "dflash":
        reasons.append(f"configs are composed for DFlash drafters only, this is {case.kind_name}")
    if case.shape is None or not case.shape.layers:
        reasons.append("there are no weights to read sizes from")
    elif None in (
        case.shape.hidden,
        case.shape.intermediate,
        case.shape.heads,
        case.shape.kv_heads,
        case.shape.head_dim,
    ):
        reasons.append("the tensors do not give all sizes (see drafter.tensors)")
    if case.goal.vocab is None or case.goal.layers is None:
        reasons.append("the target's config gives no vocabulary size or number of layers")
    if _ids(case) is None:
        reasons.append("layer ids are known from nobody, and the usual spacing does not apply")
    if _mask(case) is None:
        reasons.append(
            "the mask token is known from nobody and is not invented: a wrong one makes a dead drafter"
        )
    if _theta(case) is None:
        reasons.append(
            "rope_theta is known from nobody and is not invented: a wrong one makes a dead drafter"
        )
    return reasons


def _ids(case: Case) -> Known | None:
    """Family and relatives first; then what the file says, when it is sound; the spacing last."""
    expected = case.expected.ids
    if expected is not None and expected.origin != FORMULA:
        return expected
    meant = case.meant_layers
    unsound = (id_rules.wrong_count, id_rules.twice, id_rules.out_of_range)
    if meant is not None and min(meant) >= 0 and not any(rule(case) for rule in unsound):
        return Known(tuple(sorted(meant)), "config", "kept from the file, unconfirmed")
    return expected


def _mask(case: Case) -> Known | None:
    if case.expected.mask is not None:
        return case.expected.mask
    wrong = (mask_rules.beyond, mask_rules.is_end, mask_rules.is_ordinary, mask_rules.is_template)
    if case.config is None or case.config.mask is None or any(rule(case) for rule in wrong):
        return None
    return Known(case.config.mask, "config", "kept from the file, unconfirmed")


def _theta(case: Case) -> Known | None:
    return case.expected.theta or _from(case.config.theta if case.config else None, "config")


def _window(case: Case, notes: list[str]) -> dict[str, Known]:
    layers = case.shape.layers if case.shape else 0
    types, window = case.expected.layer_types, case.expected.window
    config = case.config
    if types is None and config is not None and config.layer_types and len(config.layer_types) == layers:
        types = Known(config.layer_types, "config", "kept from the file")
        window = window or _from(config.window, "config")
    if types is None or len(types.value) != layers:
        notes.append("nobody says whether layers slide; full attention is written")
        types = Known(("full_attention",) * layers, FORMULA, "most published drafters")
    slides = "sliding_attention" in types.value
    made = {
        "layer_types": Known(list(types.value), types.origin, types.source),
        "use_sliding_window": Known(slides, types.origin, types.source),
        "max_window_layers": Known(layers, types.origin, types.source),
    }
    if slides and window is not None:
        made["sliding_window"] = window
    elif slides:
        notes.append("layers slide, but nobody gives the window")
    return made


def _shifts(case: Case) -> bool:
    """Whether this engine takes dflash_config ids one layer early, so that a shifted list has to stand
    beside them."""
    return any(
        row.field == "dflash_config.target_layer_ids" and row.offset == -1 for row in case.engine.readings
    )


def _nested(made: Mapping[str, Known], original: Mapping[str, Any] | None) -> dict[str, Any]:
    kept = {key: value for key, value in (original or {}).items() if key not in _OWN_KEYS}
    for stale in (
        "eagle_aux_hidden_state_layer_ids",
        "aux_hidden_state_layer_ids",
        "target_layer_ids",
        "mask_token_id",
        "torch_dtype",
    ):
        kept.pop(stale, None)
    special = kept.get("dflash_config")
    content: dict[str, Any] = {**kept, "dflash_config": dict(special) if isinstance(special, dict) else {}}
    for name, known in made.items():
        head, _, tail = name.partition(".")
        if tail:
            content[head][tail] = known.value
        else:
            content[name] = known.value
    if isinstance(content.get("rope_parameters"), dict):
        content["rope_parameters"] = {**content["rope_parameters"], "rope_theta": content["rope_theta"]}
    return content


def _from(value: Any, origin: str) -> Known | None:
    return None if value is None else Known(value, origin, "")
