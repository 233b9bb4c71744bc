"""Published drafters: their shape, and the values that cannot be read from the weights.

Rows whose source is SpecForge are training configurations that mirror the published ones; the bytes published
with the weights were not compared. None means unknown, never "none". The same name is not always the same
geometry: two revisions of one drafter are two rows. Checked 2026-11-29.
"""

from __future__ import annotations

from dataclasses import dataclass

FULL, SLIDING = "full_attention", "sliding_attention"


@dataclass(frozen=True)
class Family:
    """One drafter at one revision.

    Sizes are elements; ``theta`` is the RoPE base; ``window`` is in tokens.
    """

    name: str
    source: str
    repo: str | None = None
    kind: str = "dflash"
    target_layers: int | None = None
    vocab: int | None = None
    hidden: int | None = None
    intermediate: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    layers: int | None = None
    captured: int | None = None
    ids: tuple[int, ...] | None = None
    mask: int | None = None
    block: int | None = None
    theta: float | None = None
    eps: float | None = None
    partial_rotary: float | None = None
    layer_types: tuple[str, ...] | None = None
    window: int | None = None
    revision: str | None = None


FAMILIES: tuple[Family, ...] = (
    Family(
        "Qwen3-4B-DFlash-b16",
        "sgl-project/SpecForge configs/qwen3-4b-dflash.json @9d63ee8",
        repo="z-lab/Qwen3-4B-DFlash-b16",
        target_layers=36,
        vocab=151936,
        hidden=2560,
        intermediate=9728,
        heads=32,
        kv_heads=8,
        head_dim=128,
        layers=5,
        captured=5,
        ids=(1, 9, 17, 25, 33),
        mask=151669,
        block=16,
        theta=1e6,
        eps=1e-6,
        layer_types=(FULL,) * 5,
    ),
    Family(
        "Qwen3-8B-DFlash-b16",
        "sgl-project/SpecForge configs/qwen3-8b-dflash.json @b3d2401; ggml-org/llama.cpp#25792",
        repo="z-lab/Qwen3-8B-DFlash-b16",
        target_layers=36,
        vocab=151936,
        hidden=4096,
        intermediate=12288,
        heads=32,
        kv_heads=8,
        head_dim=128,
        layers=5,
        captured=5,
        ids=(1, 9, 17, 25, 33),
        mask=151669,
        block=16,
        theta=1e6,
        eps=1e-6,
        layer_types=(FULL,) * 5,
    ),
    Family(
        "Qwen3.5-4B-DFlash",
        "sgl-project/SpecForge configs/qwen3.5-4b-vl-dflash.json @1827372",
        target_layers=32,
        vocab=248320,
        hidden=2560,
        intermediate=9216,
        heads=16,
        kv_heads=4,
        head_dim=256,
        layers=5,
        captured=5,
        ids=(1, 8, 15, 22, 29),
        mask=248070,
        block=16,
        theta=1e7,
        eps=1e-6,
        layer_types=(FULL,) * 5,
    ),
    Family(
        "Qwen3.5-35B-A3B-DFlash",
        "sgl-project/SpecForge; vllm#47914 (the file published now mixes sliding layers)",
        repo="z-lab/Qwen3.5-35B-A3B-DFlash",
        target_layers=40,
        vocab=248320,
        hidden=2048,
        intermediate=6144,
        heads=32,
        kv_heads=4,
        head_dim=128,
        layers=8,
        captured=5,
        ids=(1, 10, 19, 28, 37),
        mask=248070,
        block=16,
        theta=1e7,
    ),
    Family(
        "Qwen3.6-27B-DFlash",
        "sgl-project/SpecForge a6b6b023 configs/qwen3.6-27b-dflash.json, and two independent ports",
        repo="z-lab/Qwen3.6-27B-DFlash",
        target_layers=64,
        vocab=248320,
        hidden=5120,
        intermediate=17408,
        heads=32,
        kv_heads=8,
        head_dim=128,
        layers=5,
        captured=5,
        ids=(1, 16, 31, 46, 61),
        mask=248070,
        block=16,
        theta=1e7,
        eps=1e-6,
        layer_types=(SLIDING,) * 4 + (FULL,),
        window=2048,
    ),
    Family(
        "Qwen3.6-35B-A3B-DFlash",
        "vllm#46105 (comment)",
        repo="z-lab/Qwen3.6-35B-A3B-DFlash",
        target_layers=40,
        vocab=248320,
        layers=6,
        mask=248070,
        block=16,
        layer_types=(SLIDING,) * 5 + (FULL,),
        window=4096,
    ),
    Family(
        "Qwen3.5-122B-A10B-DFlash, retrained",
        "z-lab/dflash#152",
        repo="z-lab/Qwen3.5-122B-A10B-DFlash",
        vocab=248320,
        layers=6,
        captured=8,
        block=16,
        window=4096,
        revision="2274357",
    ),
    Family(
        "Qwen3.5-122B-A10B-DFlash, original",
        "z-lab/dflash#152",
        repo="z-lab/Qwen3.5-122B-A10B-DFlash",
        vocab=248320,
        layers=4,
        captured=6,
        block=16,
        window=2048,
        revision="6c7242c",
    ),
    Family(
        "Qwen3-Coder-30B-A3B-DFlash",
        "ZinYY/AdaFlash#1 (third-party configuration)",
        repo="z-lab/Qwen3-Coder-30B-A3B-DFlash",
        target_layers=48,
        vocab=151936,
        layers=8,
        captured=5,
        ids=(1, 12, 23, 34, 45),
    ),
    Family(
        "Qwen3.8-27B-DFlash2",
        "sgl-project/SpecForge configs/qwen3.6-27b-dflash2.json @5943b2f; NVIDIA-NeMo/Automodel#3605",
        repo="z-lab/Qwen3.8-27B-DFlash2",
        kind="dflash2",
        target_layers=64,
        vocab=248320,
        hidden=5120,
        intermediate=17408,
        heads=32,
        kv_heads=8,
        head_dim=128,
        layers=5,
        captured=5,
        ids=(5, 19, 33, 47, 61),
        mask=248070,
        block=8,
        theta=1e7,
        eps=1e-6,
        layer_types=(SLIDING,) * 5,
        window=2048,
    ),
    Family(
        "LongCat-Flash-DFlash",
        "sgl-project/SpecForge configs/longcat-flash-dflash.json @4497a2d",
        target_layers=28,
        vocab=131072,
        hidden=6144,
        intermediate=12288,
        heads=32,
        kv_heads=8,
        head_dim=128,
        layers=5,
        captured=5,
        ids=(1, 7, 13, 19, 25),
        mask=2,
        block=16,
        theta=1e6,
        eps=1e-6,
        layer_types=(FULL,) * 5,
    ),
    Family(
        "LFM2.5-1.2B-DFlash",
        "sgl-project/SpecForge configs/lfm2.5-1.2b-instruct-dflash.json @04b94fc",
        target_layers=16,
        vocab=65536,
        hidden=2048,
        intermediate=6144,
        heads=32,
        kv_heads=8,
        head_dim=64,
        layers=8,
        captured=5,
        ids=(1, 4, 7, 10, 13),
        mask=16,
        block=16,
        theta=1e6,
        eps=1e-5,
        layer_types=(FULL,) * 8,
    ),
)

SIBLING_REPOS: tuple[str, ...] = tuple(dict.fromkeys(row.repo for row in FAMILIES if row.repo))
"""Where ``--siblings hub`` looks, and nowhere else."""
