"""One typed view on a model's config.json, whichever format wrote it.

Three formats describe a drafter: the plain config.json of transformers, the nested one of speculators, and
GGUF metadata. All become a ModelConfig. A field of the wrong type counts as absent and is listed in
``wrong``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from checks.data.drafter_defaults import DEFAULTS, Default
from checks.data.id_conventions import MEANING

ID_FIELDS = tuple(MEANING)
_NESTED = ("text_config", "transformer_layer_config", "llm_config")


@dataclass(frozen=True)
class ModelConfig:
    """What a config says.

    None is "absent". ``ids`` maps each field that holds layer ids to its list as written.
    """

    fmt: str = "hf"
    model_type: str | None = None
    architectures: tuple[str, ...] = ()
    hidden: int | None = None
    intermediate: int | None = None
    layers: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    vocab: int | None = None
    draft_vocab: int | None = None
    target_hidden: int | None = None
    theta: float | None = None
    other_theta: float | None = None
    rope_type: str | None = None
    partial_rotary: float | None = None
    eps: float | None = None
    act: str | None = None
    attention_bias: bool | None = None
    tie: bool | None = None
    max_positions: int | None = None
    dtype: str | None = None
    mask: int | None = None
    mask_field: str | None = None
    other_mask: int | None = None
    block: int | None = None
    other_block: int | None = None
    num_target_layers: int | None = None
    ids: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    layer_types: tuple[str, ...] | None = None
    window: int | None = None
    use_window: bool | None = None
    swa_window: int | None = None
    bos: tuple[int, ...] = ()
    eos: tuple[int, ...] = ()
    mtp_layers: int | None = None
    quantization: Mapping[str, Any] | None = None
    name: str | None = None
    revision: str | None = None
    present: frozenset[str] = frozenset()
    wrong: tuple[str, ...] = ()

    @property
    def defaults(self) -> Mapping[str, Default] | None:
        """The silent defaults of this model type, or None where no row is known."""
        return DEFAULTS.get(self.model_type or "")

    def silently(self, name: str) -> Default:
        """What the absent field ``name`` becomes; None where nothing is known."""
        rows = self.defaults
        return None if rows is None or name in self.present else rows.get(name)

    @property
    def effective_theta(self) -> float | None:
        if self.theta is not None:
            return self.theta
        default = self.silently("rope_theta")
        return float(default) if isinstance(default, (int, float)) else None

    @property
    def effective_vocab(self) -> int | None:
        if self.vocab is not None:
            return self.vocab
        default = self.silently("vocab_size")
        return default if isinstance(default, int) else None

    @property
    def sliding_layers(self) -> int:
        return sum(kind == "sliding_attention" for kind in self.layer_types or ())


class _Reader:
    """Takes typed values out of a mapping and remembers what had the wrong type."""

    def __init__(self) -> None:
        self.wrong: list[str] = []

    def whole(self, source: Mapping[str, Any], name: str, minimum: int = 1) -> int | None:
        value = source.get(name)
        if value is None:
            return None
        if type(value) is int and minimum <= value < 2**53:
            return value
        self._refuse(name, value, f"a whole number from {minimum} on")
        return None

    def number(self, source: Mapping[str, Any], name: str) -> float | None:
        value = source.get(name)
        if value is None:
            return None
        if type(value) in (int, float) and 0 < value < 1e300:
            return float(value)
        self._refuse(name, value, "a number above 0")
        return None

    def flag(self, source: Mapping[str, Any], name: str) -> bool | None:
        value = source.get(name)
        if value is None or isinstance(value, bool):
            return value
        self._refuse(name, value, "true or false")
        return None

    def text(self, source: Mapping[str, Any], name: str) -> str | None:
        value = source.get(name)
        if value is None or isinstance(value, str):
            return value
        self._refuse(name, value, "a text")
        return None

    def texts(self, source: Mapping[str, Any], name: str) -> tuple[str, ...] | None:
        value = source.get(name)
        if value is None:
            return None
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return tuple(value)
        self._refuse(name, value, "a list of texts")
        return None

    def wholes(self, source: Mapping[str, Any], name: str) -> tuple[int, ...] | None:
        value = source.get(name)
        if value is None:
            return None
        if (
            isinstance(value, list)
            and value
            and all(type(item) is int and abs(item) < 2**53 for item in value)
        ):
            return tuple(value)
        self._refuse(name, value, "a list of whole numbers")
        return None

    def one_or_more(self, source: Mapping[str, Any], name: str) -> tuple[int, ...]:
        value = source.get(name)
        listed = self.wholes({name: [value] if type(value) is int else value}, name)
        return listed or ()

    def group(self, source: Mapping[str, Any], name: str) -> Mapping[str, Any]:
        value = source.get(name)
        if value is None:
            return {}
        if isinstance(value, dict):
            return value
        self._refuse(name, value, "an object")
        return {}

    def _refuse(self, name: str, value: object, expected: str) -> None:
        self.wrong.append(f"{name} is {_brief(value)}, expected {expected}")


def parse(raw: Mapping[str, Any], fmt: str | None = None) -> ModelConfig:
    """Reads a config.json of transformers or speculators, or GGUF metadata brought into that form
    (``fmt="gguf"``)."""
    read = _Reader()
    nested = next((read.group(raw, key) for key in _NESTED if isinstance(raw.get(key), dict)), {})
    body: Mapping[str, Any] = {**raw, **nested}
    special = {**read.group(raw, "eagle_config"), **read.group(raw, "dflash_config")}
    rope = _rope_group(read, body)
    thetas = [read.number(rope, "rope_theta"), read.number(body, "rope_theta")]
    found = [value for value in thetas if value is not None]
    theta, others = (found[0], found[1:]) if found else (None, [])
    masks = [
        (place, value)
        for place, source, name in (
            ("dflash_config.mask_token_id", special, "mask_token_id"),
            ("pard_token", raw, "pard_token"),
            ("ptd_token_id", raw, "ptd_token_id"),
            ("mask_token_id", raw, "mask_token_id"),
        )
        if (value := read.whole(source, name, 0)) is not None
    ]
    blocks = [
        value
        for value in (read.whole(special, "block_size"), read.whole(raw, "block_size"))
        if value is not None
    ]
    verifier = read.group(read.group(raw, "speculators_config"), "verifier")
    present = {key for key, value in body.items() if value is not None}
    if theta is not None:
        present.add("rope_theta")
    return ModelConfig(
        fmt=fmt or ("speculators" if "speculators_model_type" in raw else "hf"),
        model_type=read.text(body, "model_type"),
        architectures=read.texts(raw, "architectures") or (),
        hidden=read.whole(body, "hidden_size"),
        intermediate=read.whole(body, "intermediate_size"),
        layers=read.whole(body, "num_hidden_layers"),
        heads=read.whole(body, "num_attention_heads"),
        kv_heads=read.whole(body, "num_key_value_heads"),
        head_dim=read.whole(body, "head_dim"),
        vocab=read.whole(body, "vocab_size"),
        draft_vocab=read.whole(raw, "draft_vocab_size"),
        target_hidden=read.whole(raw, "target_hidden_size"),
        theta=theta,
        other_theta=next((value for value in others if value != theta), None),
        rope_type=read.text(rope, "rope_type") or read.text(rope, "type"),
        partial_rotary=read.number(rope, "partial_rotary_factor")
        or read.number(body, "partial_rotary_factor"),
        eps=read.number(body, "rms_norm_eps"),
        act=read.text(body, "hidden_act") or read.text(body, "hidden_activation"),
        attention_bias=read.flag(body, "attention_bias"),
        tie=read.flag(body, "tie_word_embeddings"),
        max_positions=read.whole(body, "max_position_embeddings"),
        dtype=read.text(body, "dtype") or read.text(body, "torch_dtype"),
        mask=masks[0][1] if masks else None,
        mask_field=masks[0][0] if masks else None,
        other_mask=next((value for _, value in masks[1:] if value != masks[0][1]), None),
        block=blocks[0] if blocks else None,
        other_block=next((value for value in blocks[1:] if value != blocks[0]), None),
        num_target_layers=read.whole(special, "num_target_layers") or read.whole(raw, "num_target_layers"),
        ids=_ids(read, raw, special),
        layer_types=read.texts(body, "layer_types"),
        window=read.whole(body, "sliding_window"),
        use_window=read.flag(body, "use_sliding_window"),
        swa_window=read.whole(special, "swa_window_size") if special.get("use_swa") is True else None,
        bos=read.one_or_more(body, "bos_token_id"),
        eos=read.one_or_more(body, "eos_token_id"),
        mtp_layers=read.whole(body, "mtp_num_hidden_layers", 0)
        if "mtp_num_hidden_layers" in body
        else read.whole(body, "num_nextn_predict_layers", 0),
        quantization=read.group(raw, "quantization_config")
        or read.group(nested, "quantization_config")
        or None,
        name=read.text(raw, "_name_or_path") or read.text(verifier, "name_or_path"),
        revision=read.text(raw, "_commit_hash"),
        present=frozenset(present),
        wrong=tuple(dict.fromkeys(read.wrong)),
    )


def _rope_group(read: _Reader, body: Mapping[str, Any]) -> Mapping[str, Any]:
    """The rope block; where there is one per layer type (Gemma), that of the full-attention layers."""
    rope = read.group(body, "rope_parameters") or read.group(body, "rope_scaling")
    inner = rope.get("full_attention")
    return inner if isinstance(inner, dict) else rope


def _ids(read: _Reader, raw: Mapping[str, Any], special: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for name in ID_FIELDS:
        head, _, tail = name.partition(".")
        source, key = (special, tail) if head == "dflash_config" else (raw, name)
        if name == "eagle_aux_hidden_state_layer_ids" and key not in raw:
            source = special
        values = read.wholes(source, key)
        if values:
            found[name] = values
    return found


def _brief(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
