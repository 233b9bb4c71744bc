"""Is a step slow for a model of this size? Answered from one record, without a baseline, where the model is small.

The GPU's part is bounded from above by the bytes that a step reads; what is left is the host's, and that is known
from measurement (:mod:`checks.data.host_costs`). Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from checks.data import host_costs as costs
from checks.serving.evidence import Evidence
from checks.serving.measured import SEQUENTIAL


@dataclass(frozen=True)
class HostCost:
    """Milliseconds of one step: as measured, the GPU's part at most, and the host's part as usual.

    ``source`` says how the model's size is known.
    """

    step_ms: float
    model_ms: float
    usual_ms: float
    source: str

    @property
    def limit_ms(self) -> float:
        return costs.SLOW_HOST * self.usual_ms + self.model_ms

    @property
    def starved(self) -> bool:
        return self.step_ms > self.limit_ms

    @property
    def words(self) -> str:
        return (
            f"a step takes {self.step_ms:.1f} ms, the GPU needs at most {self.model_ms:.1f} ms of it for a model"
            f" this small ({self.source}), and a host usually {self.usual_ms:.1f} ms"
        )


def host_cost(e: Evidence) -> HostCost | None:
    """The cost of a step at concurrency 1 on one GPU with CUDA graphs.

    None where a part of that is not known, and for a model that may take longer than its host: only where the host
    is the larger part does a slow step accuse it.
    """
    if e.settings.engine != "vllm" or e.log.config.get("device_config") != "cuda":
        return None
    one_gpu = e.settings.get("tp") == 1 and (e.settings.get("pp") or 1) == 1
    if not one_gpu or e.log.graphs is not True or not _alone(e):
        return None
    if e.speed is None or e.speed.ms_per_step is None:
        return None
    sized = _bytes_per_step(e)
    if sized is None:
        return None
    bandwidth = costs.HOPPER_BYTES_PER_S if e.log.flash_attention == 3 else costs.ANY_BYTES_PER_S
    cost = HostCost(e.speed.ms_per_step, 1000 * sized[0] / bandwidth, _usual(e), sized[1])
    return cost if cost.model_ms <= cost.usual_ms else None


def _usual(e: Evidence) -> float:
    if e.acceptance is None:
        return costs.TOKEN_MS
    if e.method in SEQUENTIAL:
        return costs.PASS_MS * ((e.k or 1) + 1)
    return costs.PARALLEL_DRAFT_MS


def _alone(e: Evidence) -> bool:
    """Whether one request ran at a time: our own window, or a log that never shows two."""
    if isinstance(e.window.get("tok_s"), dict) and "1" in e.window["tok_s"]:
        return not e.window.get("foreign_traffic")
    return e.log.most_running == 1 and e.seen.before is None


def _bytes_per_step(e: Evidence) -> tuple[float, str] | None:
    """At most so many bytes are read in a step, and how that is known."""
    context = (e.mean_prompt or 0.0) + _answer(e)
    if e.mean_prompt is None:
        return None
    kv = e.kv_bytes_per_token
    if e.log.loaded_gib is not None and kv is not None:
        return e.log.loaded_gib * 2**30 + kv * context, f"the engine loaded {e.log.loaded_gib:g} GiB"
    if told := _by_config(e):
        layers, hidden, vocab = told
        weights = 2.0 * (costs.WIDEST_LAYER * hidden * hidden * layers + 2 * vocab * hidden)
        # The drafter is smaller than its target; keys and values are at most as wide as the model.
        size = 2 * weights + 4.0 * hidden * layers * context
        return size, f"{layers} layers of width {hidden}"
    if kv is not None and kv <= costs.SMALL_KV_BYTES and set(e.log.architectures) & costs.DENSE:
        whole = set(e.log.architectures) <= costs.DENSE | {"DFlashDraftModel"}
        if whole:
            return (costs.WEIGHTS_PER_KV_BYTE + context) * kv, f"{kv / 1024:.0f} KiB of KV cache per token"
    return None


def _by_config(e: Evidence) -> tuple[int, int, int] | None:
    """Layers, width and vocabulary of the target, from its config or from what a block drafter says of it."""
    case = e.drafter.case
    if case is None or not (e.drafter.target_known or e.drafter.dflash):
        return None
    goal = case.goal
    vocab = goal.vocab or (case.config.vocab if case.config else None)
    if goal.layers is None or goal.hidden is None or vocab is None:
        return None
    return goal.layers, goal.hidden, vocab


def _answer(e: Evidence) -> float:
    requests = e.counters.decode_requests or e.counters.ttft_requests
    return (e.counters.generation_tokens or 0.0) / requests if requests else 0.0
