"""Bytes of weights on one GPU: what is sharded, what every rank holds, what is not loaded at all."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from checks.fit.files import Folder
from checks.fit.shape import Shape
from checks.safetensors import DTYPE_BITS, Tensor

REPLICATED = re.compile(
    r"(norm|\.bias$|\.scale$|mlp\.gate\.weight$|router|shared_expert_gate|kv_a_proj|q_a_proj|(^|\.)fc\.weight$|A_log|dt_bias)"
)
"""Tensors that both engines keep whole on every rank: norms, biases, routers, the down-projections of latent
attention and a drafter's fc (``ReplicatedLinear`` in vllm/model_executor/models and sglang/srt/models)."""

KEY_VALUE = re.compile(r"\.[kv]_proj\.weight")
VISION = re.compile(
    r"(^|\.)(visual|vision_tower|vision_model|vision_encoder|multi_modal_projector|audio_tower)\."
)
MTP = re.compile(r"(^|\.)(mtp|nextn)\.")
HALF = {"F32", "F64"}
"""Stored wider than served: an unquantised matrix is cast to the model's type when it is loaded."""


@dataclass(frozen=True)
class Weights:
    """Bytes per GPU, the bytes of the whole, and what they rest on. ``left_out``: bytes not loaded, by reason."""

    per_gpu: int
    whole: int
    known_by: str
    left_out: Mapping[str, int]


def weights(folder: Folder, shape: Shape, tp: int, *, mtp: bool, text_only: bool) -> Weights | None:
    """The weights of a folder on each of ``tp`` GPUs; None when the folder does not tell any size."""
    if folder.tensors is None:
        if folder.total is None:
            return None
        extra = _replicated_kv(shape, tp)
        return Weights(-(-folder.total // tp) + extra, folder.total, folder.known_by, {})
    per_gpu, whole = 0, 0
    left: dict[str, int] = {}
    tied = "lm_head.weight" in folder.tensors and bool(folder.config.get("tie_word_embeddings"))
    for name, tensor in folder.tensors.items():
        size = _bytes(tensor, shape)
        reason = _unused(name, shape, mtp=mtp, text_only=text_only, tied=tied)
        if reason:
            left[reason] = left.get(reason, 0) + size
            continue
        whole += size
        per_gpu += _on_one(name, tensor, size, shape, tp)
    return Weights(per_gpu, whole, folder.known_by, left)


def _bytes(tensor: Tensor, shape: Shape) -> int:
    bits = DTYPE_BITS[tensor.dtype]
    if tensor.dtype in HALF and len(tensor.shape) > 1:
        bits = 8 * shape.dtype_bytes
    return -(-prod(tensor.shape) * bits // 8)


def _unused(name: str, shape: Shape, *, mtp: bool, text_only: bool, tied: bool) -> str | None:
    if not mtp and (MTP.search(name) or _beyond_last_layer(name, shape)):
        return "MTP heads, loaded only when they draft"
    if text_only and VISION.search(name):
        return "vision tower, not loaded for text only"
    return "lm_head, tied to the embedding" if tied and name == "lm_head.weight" else None


def _beyond_last_layer(name: str, shape: Shape) -> bool:
    """DeepSeek and GLM store their MTP layer as one more numbered layer."""
    match = re.search(r"(?:^|\.)layers\.(\d{1,5})\.", name)
    return bool(match and shape.mtp_layers and int(match[1]) >= len(shape.layers))


def _on_one(name: str, tensor: Tensor, size: int, shape: Shape, tp: int) -> int:
    if tp == 1 or len(tensor.shape) < 2 or REPLICATED.search(name):
        return size
    if KEY_VALUE.search(name) and shape.kv_heads < tp:
        return -(-size // shape.kv_heads)
    return -(-size // tp)


def _replicated_kv(shape: Shape, tp: int) -> int:
    """With more ranks than key/value heads each rank holds one whole head: what the index's sum lacks."""
    if shape.kv_heads >= tp or shape.latent:
        return 0
    layers = [layer for layer in shape.layers if layer.heads]
    one = sum(shape.hidden * (layer.head_dim + layer.value_dim) * shape.dtype_bytes for layer in layers)
    return one - one * shape.kv_heads // tp
