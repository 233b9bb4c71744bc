"""What the weights tell: sizes from tensor shapes, and which tensors a drafter of this kind must have.

Shapes are rows by columns as torch stores a linear layer: ``q_proj.weight`` is [heads x head_dim, hidden],
``q_norm.weight`` is [head_dim], ``fc.weight`` is [hidden, captured layers x target hidden].
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from checks.safetensors import Tensor

_PREFIX = re.compile(r"^(?:draft_model\.|model\.)+")
_RENAMED = (("midlayer.", "layers.0."), ("encoder.output_norm_enc.", "hidden_norm."), ("encoder.fc.", "fc."))
_LAYER = re.compile(r"^layers\.(\d{1,4})\.(.+)$")
LAYER_TENSORS = (
    "input_layernorm.weight",
    "post_attention_layernorm.weight",
    "self_attn.q_proj.weight",
    "self_attn.k_proj.weight",
    "self_attn.v_proj.weight",
    "self_attn.o_proj.weight",
    "self_attn.q_norm.weight",
    "self_attn.k_norm.weight",
    "mlp.gate_proj.weight",
    "mlp.up_proj.weight",
    "mlp.down_proj.weight",
)
TOP_TENSORS = ("fc.weight", "hidden_norm.weight", "norm.weight")
_ALLOWED = re.compile(
    r"^(embed_tokens\.weight|lm_head\.weight|d2t|t2d|mask_embedding|draft_id_to_target_id|rotary_emb\.inv_freq"
    r"|candidate_selector\..+|layers\.\d+\.(attention_conv|mlp_conv)\..+"
    r"|layers\.\d+\.self_attn\.(attention_sink_bias|rotary_emb\.inv_freq|[qkvo]_proj\.bias)"
    r"|.+\.(weight_scale|weight_scale_inv|input_scale|weight_packed|weight_shape|weight_zero_point|qweight|qzeros|scales|g_idx))$"
)
PACKED = re.compile(r"\.(weight_packed|qweight|weight_scale|weight_scale_inv|scales)$")


@dataclass(frozen=True)
class Shape:
    """Sizes derived from tensor shapes; None where the tensors do not tell.

    ``fc_in`` is the width that fc expects; ``guessed`` that no tensor tells the kind, and the config's word counts.
    """

    kind: str
    hidden: int | None
    intermediate: int | None
    heads: int | None
    kv_heads: int | None
    head_dim: int | None
    layers: int
    fc_in: int | None
    vocab: int | None
    bias: bool
    dtype: str | None
    dtypes: Mapping[str, int]
    odd: tuple[str, ...]
    guessed: bool = False

    def captured(self, target_hidden: int | None) -> int | None:
        """How many target layers feed ``fc``; None when that is no whole number or the target's width is
        unknown."""
        width = target_hidden or self.hidden
        if self.fc_in is None or not width or self.fc_in % width:
            return None
        return self.fc_in // width


def plain_names(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors under the names that the engines use after their own renaming."""
    result: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        plain = _PREFIX.sub("", name)
        for old, new in _RENAMED:
            plain = plain.replace(old, new)
        result[plain] = tensor
    return result


def layer_numbers(names: Mapping[str, Tensor]) -> list[int]:
    return sorted({int(match[1]) for name in names if (match := _LAYER.match(name))})


def derive(tensors: Mapping[str, Tensor]) -> Shape:
    """Derives sizes; ``odd`` lists layers whose shapes contradict the first one's."""
    names = plain_names(tensors)
    numbers = layer_numbers(names)
    first = numbers[0] if numbers else 0

    def at(name: str) -> tuple[int, ...]:
        tensor = names.get(name)
        return tensor.shape if tensor else ()

    def part(name: str) -> tuple[int, ...]:
        """The tensor's shape in the first layer that has it."""
        return next((shape for n in numbers if (shape := at(f"layers.{n}.{name}"))), ())

    q, k, gate = (
        part("self_attn.q_proj.weight"),
        part("self_attn.k_proj.weight"),
        part("mlp.gate_proj.weight"),
    )
    fc, norm, q_norm = at("fc.weight"), at("norm.weight"), part("self_attn.q_norm.weight")
    hidden = _first(fc[:1], norm[:1], gate[1:2], q[1:2] if len(q) == 2 else ())
    head_dim = q_norm[0] if len(q_norm) == 1 else None
    embed = at("embed_tokens.weight") or at("lm_head.weight")
    kinds = Counter(tensor.dtype for tensor in names.values())
    floating = [kind for kind, _ in kinds.most_common() if kind in {"BF16", "F16", "F32"}]
    kind, guessed = _kind(names)
    return Shape(
        kind=kind,
        hidden=hidden,
        intermediate=gate[0] if len(gate) == 2 else None,
        heads=_ratio(q[0] if q else None, head_dim),
        kv_heads=_ratio(k[0] if k else None, head_dim),
        head_dim=head_dim,
        layers=(numbers[-1] + 1 - first) if numbers else 0,
        fc_in=fc[1] if len(fc) == 2 else None,
        vocab=embed[0] if len(embed) == 2 else None,
        bias=any(name.endswith("self_attn.q_proj.bias") for name in names),
        dtype=floating[0] if floating else None,
        dtypes=dict(kinds),
        odd=_odd_layers(names, numbers),
        guessed=guessed,
    )


def missing_tensors(tensors: Mapping[str, Tensor], layers: int | None) -> list[str]:
    """What a block-diffusion drafter of ``layers`` layers must have and this file lacks."""
    names = plain_names(tensors)
    numbers = layer_numbers(names)
    first = numbers[0] if numbers else 0
    count = max(layers or 0, (numbers[-1] + 1 - first) if numbers else 0)
    wanted = [*TOP_TENSORS, *(f"layers.{first + n}.{part}" for n in range(count) for part in LAYER_TENSORS)]
    return [name for name in wanted if not _there(name, names)]


def unknown_tensors(tensors: Mapping[str, Tensor]) -> list[str]:
    """Names that no loader of this kind knows."""
    known = {*TOP_TENSORS, *LAYER_TENSORS}

    def is_known(name: str) -> bool:
        match = _LAYER.match(name)
        return (match[2] if match else name) in known or _ALLOWED.match(name) is not None

    return sorted(name for name in plain_names(tensors) if not is_known(name))


def _there(name: str, names: Mapping[str, Tensor]) -> bool:
    stem = name.removesuffix("weight")
    return name in names or f"{stem}weight_packed" in names or f"{stem}qweight" in names


def _kind(names: Mapping[str, Tensor]) -> tuple[str, bool]:
    """The kind, and whether that is no more than a guess: an incomplete drafter lacks what would tell."""
    if any("candidate_selector." in name or "attention_conv." in name for name in names):
        return "dflash2", False
    if "hidden_norm.weight" in names and "layers.0.hidden_norm.weight" not in names:
        return "dflash", False
    fc = names.get("fc.weight")
    if any(name.startswith("mtp.") for name in names):
        return "mtp", False
    if "layers.0.hidden_norm.weight" in names:
        return "eagle3", False
    if fc is not None:
        wide = names.get("layers.0.self_attn.q_proj.weight")
        doubled = (
            wide is not None
            and len(wide.shape) == 2
            and len(fc.shape) == 2
            and wide.shape[1] == 2 * fc.shape[0]
        )
        return ("eagle3", False) if doubled else ("dflash", True)
    if "embed_tokens.weight" in names:
        return "draft_model", False
    return ("dflash", True) if names else ("unknown", False)


def _odd_layers(names: Mapping[str, Tensor], numbers: list[int]) -> tuple[str, ...]:
    odd: list[str] = []
    for part in LAYER_TENSORS:
        shapes = {n: tensor.shape for n in numbers if (tensor := names.get(f"layers.{n}.{part}"))}
        if len(set(shapes.values())) > 1:
            odd.append(
                f"{part}: " + ", ".join(f"layer {n} {list(shape)}" for n, shape in list(shapes.items())[:6])
            )
    for n in numbers:
        v, k = (
            names.get(f"layers.{n}.self_attn.v_proj.weight"),
            names.get(f"layers.{n}.self_attn.k_proj.weight"),
        )
        if v and k and v.shape != k.shape:
            odd.append(f"layer {n}: k_proj {list(k.shape)} and v_proj {list(v.shape)} differ")
    return tuple(odd)


def _first(*candidates: tuple[int, ...]) -> int | None:
    return next((candidate[0] for candidate in candidates if candidate), None)


def _ratio(total: int | None, part: int | None) -> int | None:
    return total // part if total and part and total % part == 0 else None
