"""Every field of a drafter's config.json: which finding judges it, or why none does.

``provcheck drafter --knowable`` prints these rows; the tests break every field of every drafter in the table
in turn and hold the outcome against them. Checked 2026-11-29.
"""

from __future__ import annotations

from dataclasses import dataclass

JUDGED, NO_EFFECT, NOT_KNOWABLE = "judged", "no effect when served", "not knowable from files"


@dataclass(frozen=True)
class FieldRow:
    """``kind`` is one of the three above; ``checks`` are the findings of which at least one turns, if
    judged."""

    field: str
    kind: str
    why: str
    checks: tuple[str, ...] = ()


def _judged(field: str, why: str, *checks: str) -> FieldRow:
    return FieldRow(field, JUDGED, why, tuple(f"drafter.{check}" for check in checks))


FIELDS: tuple[FieldRow, ...] = (
    _judged("architectures", "the engine picks its code by it", "architecture"),
    _judged("model_type", "transformers picks the silent defaults by it", "architecture"),
    _judged("hidden_size", "the tensors tell it", "geometry"),
    _judged("intermediate_size", "the tensors tell it", "geometry"),
    _judged("num_hidden_layers", "the tensors tell it", "geometry", "tensors"),
    _judged("num_attention_heads", "q_proj over q_norm tells it", "geometry"),
    _judged("num_key_value_heads", "k_proj over k_norm tells it", "geometry"),
    _judged("head_dim", "q_norm tells it", "geometry"),
    _judged("attention_bias", "bias tensors are there or not", "geometry"),
    _judged("dtype", "the tensors tell it", "dtype"),
    _judged("vocab_size", "compared with the target", "vocab"),
    _judged("num_target_layers", "compared with the target", "num_target_layers"),
    _judged("rope_theta", "compared with the family, else with the target", "rope"),
    _judged("rope_scaling", "compared with the target", "rope"),
    _judged("rope_parameters", "compared with the family, else with the target", "rope"),
    _judged("partial_rotary_factor", "published drafters have none", "rope"),
    _judged("rms_norm_eps", "compared with the family, else with the target", "norm_eps"),
    _judged("hidden_act", "compared with the target", "activation"),
    _judged("max_position_embeddings", "compared with what is served", "positions"),
    _judged("block_size", "compared with the family, where one is known", "block_size"),
    _judged("layer_types", "compared with the number of layers and the family", "window"),
    _judged("sliding_window", "compared with the family; must be there when layers slide", "window"),
    _judged("use_sliding_window", "without it transformers drops the window", "window"),
    _judged(
        "dflash_config.mask_token_id",
        "compared with the family, the vocabulary, the tokenizer",
        "mask",
    ),
    _judged(
        "dflash_config.target_layer_ids",
        "count, order, range, counting, family",
        "ids_read",
        "ids_count",
        "ids_order",
        "ids_range",
        "ids_convention",
        "ids_family",
    ),
    _judged(
        "eagle_aux_hidden_state_layer_ids",
        "must be the other list plus 1",
        "ids_count",
        "ids_range",
        "ids_convention",
        "ids_family",
    ),
    FieldRow("attention_dropout", NO_EFFECT, "dropout is off when served"),
    FieldRow("auto_map", NO_EFFECT, "engines have their own code; only trust_remote_code reads it"),
    FieldRow("bos_token_id", NO_EFFECT, "the target's is used"),
    FieldRow("eos_token_id", NO_EFFECT, "the target's is used"),
    FieldRow("pad_token_id", NO_EFFECT, "nothing is padded"),
    FieldRow("initializer_range", NO_EFFECT, "used when training starts"),
    FieldRow("tie_word_embeddings", NO_EFFECT, "embedding and head are the target's"),
    FieldRow("max_window_layers", NO_EFFECT, "layer_types decides where it is given"),
    FieldRow("transformers_version", NO_EFFECT, "a note"),
    FieldRow("use_cache", NO_EFFECT, "engines keep their own cache"),
    FieldRow(
        "is_causal",
        NOT_KNOWABLE,
        "whether a block sees itself both ways is a choice of training; nothing in the weights shows it",
    ),
    FieldRow("dflash_config.causal", NOT_KNOWABLE, "as is_causal"),
    FieldRow("is_neox_style", NOT_KNOWABLE, "how pairs are rotated is a choice of training"),
)

NOT_KNOWABLE_THINGS: tuple[tuple[str, str], ...] = (
    ("weights that were never trained", "one completion, then the counters: first position below 0.01"),
    (
        "a healthy drafter of another target of the same sizes",
        "counters: first position below 0.01; compare revisions",
    ),
    ("two layers of equal shape swapped", "counters: first position 0.03 to 0.07"),
    (
        "which of several unused ids is the mask token, where no relative is known",
        "counters: first position 0.08 to 0.12",
    ),
    (
        "layer ids that fit in number and range, where no relative is known",
        "counters; the usual spacing is a default only",
    ),
    ("the block size, where no relative is known", "counters: zero from the block's end on"),
    ("an earlier or later checkpoint of the same target", "counters: small differences"),
    (
        "a compile cache that still holds other layer ids",
        "the engine's log: 'Directly load AOT compilation' after a change of ids",
    ),
)
"""What no look at files can tell, and what does (measured on vLLM 0.20.1)."""
