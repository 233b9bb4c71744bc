"""What is asked: one model, one engine, these GPUs, this context length. And what comes out."""

from __future__ import annotations

from dataclasses import dataclass

from checks.fit.cache import Settings
from checks.fit.gpus import Gpus
from checks.fit.reserve import Item
from checks.fit.shape import Shape
from checks.fit.weights import Weights


@dataclass(frozen=True)
class Question:
    """``fraction``: of the GPU's memory for the engine, ``seqs``: requests at once at most, ``state_share``:
    recurrent state to attention cache (SGLang); None is the engine's default. ``cache``: bytes of the cache where the
    caller sets them, whatever is left.
    """

    engine: str
    version: str
    gpus: Gpus
    context: int
    settings: Settings
    fraction: float | None = None
    seqs: int | None = None
    state_share: float | None = None
    mtp: bool = False
    text_only: bool = False
    eager: bool = False
    cache: int | None = None


@dataclass(frozen=True)
class Model:
    """A model and, where one drafts for it, its drafter. ``weights`` None: no size is known."""

    target: Shape
    weights: Weights | None
    drafter: Shape | None = None
    drafter_weights: Weights | None = None


@dataclass(frozen=True)
class Budget:
    """Bytes per GPU. The pool for the cache lies between ``pool_low`` and ``pool_high``; ``need`` is one request;
    ``takes`` is what must be free when it starts, since it takes that much however little it is asked."""

    share: int
    weights: int
    items: tuple[Item, ...]
    pool_low: int
    pool_high: int
    need: int
    rule: str
    states: int = 0
    per_token: int = 0
    takes: int = 0
