"""Bytes of cache that one request needs at a context length, as each engine allocates them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from checks.fit.shape import CHUNKED, FULL, NONE, RECURRENT, SLIDING, Latent, Layer, Recurrent, Shape

DTYPES: Mapping[str, Fraction] = {
    "auto": Fraction(0),
    "bfloat16": Fraction(2),
    "bf16": Fraction(2),
    "float16": Fraction(2),
    "fp8": Fraction(1),
    "fp8_e4m3": Fraction(1),
    "fp8_e5m2": Fraction(1),
    "fp8_inc": Fraction(1),
    "int8_per_token_head": Fraction(1),
    "fp8_per_token_head": Fraction(1),
    "nvfp4": Fraction(9, 16),
    "fp4_e2m1": Fraction(9, 16),
}
"""Bytes per cached number; four-bit kinds carry one scale byte per 16 (vLLM v1/kv_cache_interface.py 0.20.1,
SGLang pool_configurator.py 0.5.11). ``auto`` is the model's own type."""

SCALE = 4
"""Bytes of the float32 scale per head and token, for keys and for values, of the per_token_head kinds."""

PADDING = Fraction(3, 2)
"""Layers of one kind are padded up to the other's number while they are fewer than 1.5 times as many
(``_get_kv_cache_groups_uniform_page_size``, vLLM 0.20.1 v1/core/kv_cache_utils.py, 0.33.0 kv_cache_planning.py)."""


@dataclass(frozen=True)
class Settings:
    """What an engine was told. ``block`` in tokens, ``speculative`` draft tokens per step (0: off).

    ``state_bytes`` of a recurrent number where the config leaves it open: vLLM the model's own type
    (``_mamba_state_dtype``), SGLang float32 (``mamba2_state_dtype``).
    """

    tp: int
    dtype: str = "auto"
    block: int = 16
    batched: int = 2048
    speculative: int = 0
    hybrid: bool = True
    state_bytes: int = 2


@dataclass(frozen=True)
class Spec:
    """A kind of layer in the engine's cache: bytes per token, or a fixed state; equal specs share a group."""

    kind: str
    per_token: int
    state: int = 0
    window: int | None = None
    heads: int = 0
    head_dim: int = 0


def kv_bytes(shape: Shape, settings: Settings) -> Fraction:
    return DTYPES[settings.dtype] or Fraction(shape.dtype_bytes)


def specs(shape: Shape, settings: Settings) -> list[Spec]:
    """One Spec per layer that keeps anything."""
    size = kv_bytes(shape, settings)
    out = []
    for layer in shape.layers:
        if layer.kind == NONE:
            continue
        if layer.kind == RECURRENT:
            assert shape.recurrent is not None
            out.append(Spec(RECURRENT, 0, state_bytes(shape, settings)))
        elif shape.latent:
            out.append(Spec(FULL, latent_bytes(shape.latent, size)))
        else:
            out.append(_attention(layer, settings, size))
    return out


def _attention(layer: Layer, settings: Settings, size: Fraction) -> Spec:
    heads = max(1, layer.heads // settings.tp)
    per_token = int(heads * (layer.head_dim + layer.value_dim) * size)
    if settings.dtype.endswith("_per_token_head"):
        per_token += 2 * heads * SCALE
    kind = layer.kind if settings.hybrid else FULL
    window = layer.window if kind in (SLIDING, CHUNKED) else None
    return Spec(kind, per_token, 0, window, heads, layer.head_dim)


def latent_bytes(latent: Latent, size: Fraction) -> int:
    """Per token and layer, on every rank alike: latent, and an FP8 index key with a scale per 128 if sparse."""
    index = latent.index_width + latent.index_width // 128 * 4
    return int(latent.width * size) + index


def state_bytes(shape: Shape, settings: Settings) -> int:
    """Convolution and recurrent state of one Gated DeltaNet layer and request on one rank."""
    r = shape.recurrent
    assert r is not None
    convolved = (r.key_dim * r.key_heads * 2 + r.value_dim * r.value_heads) // settings.tp
    convolution = convolved * (r.kernel - 1 + settings.speculative) * shape.dtype_bytes
    return convolution + _temporal(r, settings)


def _temporal(r: Recurrent, settings: Settings) -> int:
    return r.value_heads // settings.tp * r.value_dim * r.key_dim * (r.state_bytes or settings.state_bytes)


@dataclass(frozen=True)
class Plan:
    """How vLLM lays out its pool: ``block_bytes`` for one block of all layers of a group, ``block`` in tokens."""

    group_size: int
    page: int
    block: int
    groups: tuple[Spec, ...]
    mixed: bool

    @property
    def block_bytes(self) -> int:
        return self.group_size * self.page


def plan(layers: list[Spec], settings: Settings) -> Plan:
    """The pool of vLLM for these layers (``get_kv_cache_groups``, ``_align_hybrid_block_size``)."""
    attention = [spec for spec in layers if spec.kind != RECURRENT]
    states = [spec.state for spec in layers if spec.kind == RECURRENT]
    block = settings.block
    if states and attention:
        per_token = attention[0].per_token
        block = max(block, block * -(-max(states) // (block * per_token)))
    if not states and len({(s.kind, s.window) for s in attention}) <= 1:
        # One kind of attention: every layer has its own page size, and a block spans them all.
        page = block * sum(spec.per_token for spec in attention)
        return Plan(1, page, block, (attention[0],) if attention else (), mixed=False)
    by_spec: dict[Spec, int] = defaultdict(int)
    for spec in layers:
        by_spec[spec] += 1
    counts = sorted(by_spec.values())
    size = counts[-1] if counts[-1] < counts[0] * PADDING else counts[0]
    groups = [spec for spec, count in by_spec.items() for _ in range(-(-count // size))]
    page = max([block * spec.per_token for spec in attention] + states)
    return Plan(size, page, block, tuple(groups), mixed=True)


def request_blocks(layout: Plan, settings: Settings, context: int) -> int:
    """Blocks that one request of this length holds (``max_memory_usage_bytes`` of each spec)."""
    return sum(_blocks(spec, layout, settings, context) for spec in layout.groups)


def _blocks(spec: Spec, layout: Plan, settings: Settings, context: int) -> int:
    if spec.kind == RECURRENT:
        # Aligned prefix caching keeps one more state than the running one ("align" mode).
        return 2 + settings.speculative
    tokens = layout.block
    if layout.mixed and spec.per_token:
        tokens = max(tokens, layout.page // spec.per_token)
    if spec.kind == SLIDING and spec.window:
        held = min(spec.window - 1 + settings.batched, context)
        return -(-held // tokens) + 1
    if spec.kind == CHUNKED and spec.window:
        return -(-min(spec.window + settings.batched, context) // tokens)
    return -(-context // tokens)


def vllm_request_bytes(layers: list[Spec], settings: Settings, context: int) -> int:
    """Bytes per GPU that vLLM wants free before it starts with this context length."""
    layout = plan(layers, settings)
    return request_blocks(layout, settings, context) * layout.block_bytes


def drafted(target: list[Spec], drafter: Shape | None, settings: Settings, *, windows: bool) -> list[Spec]:
    """Target layers and those of a drafter; ``windows``: this engine version honours a drafter's windows."""
    if drafter is None:
        return target
    plain = (
        drafter if windows else replace(drafter, layers=tuple(_widened(layer) for layer in drafter.layers))
    )
    return target + specs(plain, settings)


def _widened(layer: Layer) -> Layer:
    return replace(layer, kind=FULL, window=None) if layer.kind in (SLIDING, CHUNKED) else layer
