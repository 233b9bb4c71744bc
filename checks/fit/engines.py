"""The two engines' own arithmetic: how much of a GPU becomes cache, and how much one request takes of it."""

from __future__ import annotations

from dataclasses import replace

from checks.fit import reserve
from checks.fit.ask import Budget, Model, Question
from checks.fit.cache import Spec, drafted, specs, state_bytes, vllm_request_bytes
from checks.fit.gpus import GIB
from checks.fit.shape import FULL, RECURRENT, SLIDING, Layer, Shape

VLLM_SHARE = 0.92
"""``gpu_memory_utilization`` by default (vllm/config/cache.py, 0.20.1 and 0.33.0)."""


def vllm_defaults(usable: int) -> tuple[int, int]:
    """(tokens per batch, requests at once) of ``vllm serve`` (``get_batch_defaults``, engine/arg_utils.py 0.20.1)."""
    return (8192, 1024) if usable >= 70 * GIB else (2048, 256)


def layers_of(model: Model, question: Question) -> list[Spec]:
    """Every layer that keeps a cache: the target's, its MTP heads when they draft, the drafter's."""
    target = model.target
    if question.mtp and target.mtp_layers:
        full = next((layer for layer in target.layers if layer.kind == FULL), Layer(FULL))
        target = replace(target, layers=(*target.layers, *(full,) * target.mtp_layers))
    found = specs(target, question.settings)
    return drafted(found, model.drafter, question.settings, windows=_honours_windows(question))


def _honours_windows(question: Question) -> bool:
    """A drafter's sliding windows are honoured by vLLM from 0.25.0 on (vllm-project/vllm#46104, #47914)."""
    from packaging.version import Version

    return question.engine == "vllm" and Version(question.version) >= Version("0.25.0")


def vllm_budget(model: Model, question: Question) -> Budget:
    """vLLM: a share of the GPU, minus weights and what profiling finds, is the pool."""
    settings, usable = question.settings, question.gpus.least
    share = int(usable * (question.fraction or VLLM_SHARE))
    held = _weights(model)
    items = tuple(
        reserve.vllm_items(
            model.target,
            settings.tp,
            batched=settings.batched,
            seqs=question.seqs or vllm_defaults(usable)[1],
            eager=question.eager,
            vision=model.target.multimodal and not question.text_only,
        )
    )
    layers = layers_of(model, question)
    rest = share - held
    return Budget(
        share,
        held,
        items,
        rest - sum(item.high for item in items),
        rest - sum(item.low for item in items),
        vllm_request_bytes(layers, settings, question.context) if layers else 0,
        f"{question.fraction or VLLM_SHARE:.0%} of the GPU (--gpu-memory-utilization)",
        # Less free at the start is an error of its own (request_memory, vllm/v1/worker/utils.py 0.20.1 and 0.33.0).
        takes=share,
    )


def ram_budget(model: Model, question: Question) -> Budget:
    """vLLM on processors: weights and process, and a cache of its own size or what the share leaves."""
    settings, usable = question.settings, question.gpus.least
    share = int(usable * (question.fraction or VLLM_SHARE))
    held = _weights(model)
    items = tuple(reserve.ram_items())
    most, least = (sum(getattr(item, end) for item in items) for end in ("high", "low"))
    layers = layers_of(model, question)
    low, high = share - held - most, share - held - least
    if question.cache is not None:
        low, high = min(question.cache, low), min(question.cache, high)
    takes = held + most + question.cache if question.cache is not None else share
    return Budget(
        share,
        held,
        items,
        low,
        high,
        vllm_request_bytes(layers, settings, question.context) if layers else 0,
        f"{question.fraction or VLLM_SHARE:.0%} of the memory"
        + (f", {question.cache / GIB:g} GiB of it for the cache" if question.cache is not None else ""),
        takes=takes,
    )


def sglang_budget(model: Model, question: Question) -> Budget:
    """SGLang: a static share holds weights, recurrent states and the token pool."""
    settings, usable = question.settings, question.gpus.least
    chunk, graphs = reserve.sglang_defaults(usable, settings.tp)
    drafts = model.drafter is not None or question.mtp
    left = reserve.sglang_reserve(
        usable, settings.tp, chunk=chunk, graphs=0 if question.eager else graphs, drafts=drafts
    )
    fraction = question.fraction or max(0.0, 1 - left / usable)
    vision = model.target.multimodal and not question.text_only
    if question.fraction is None and vision:
        fraction *= reserve.VISION_SHARE
    share = int((usable - reserve.CONTEXT) * fraction)
    held = _weights(model)
    layers = layers_of(model, question)
    attention = [spec for spec in layers if spec.kind != RECURRENT]
    per_token = _per_token(attention)
    states = _speculative_states(model.target, question, drafts)
    pool = share - held - states
    if any(spec.kind == RECURRENT for spec in layers):
        share_of_states = reserve.STATE_SHARE if question.state_share is None else question.state_share
        pool = int(pool / (1 + share_of_states))
    newer = pool + max(0, left - reserve.SGLANG_LATER * reserve.MIB) if question.fraction is None else pool
    outside = usable - reserve.CONTEXT - share
    item = reserve.Item(
        "activations and CUDA graphs",
        outside,
        outside,
        "_handle_gpu_memory_settings, SGLang 0.5.11 server_args.py",
    )
    return Budget(
        share,
        held,
        (item,),
        pool,
        newer if _sizes_after_capture(question) else pool,
        per_token * question.context,
        f"{fraction:.1%} of the GPU (--mem-fraction-static)",
        states,
        per_token,
        # It sizes its pool by what is free when it starts, so that beside another one no figure of this sum holds.
        takes=usable,
    )


def _sizes_after_capture(question: Question) -> bool:
    from packaging.version import Version

    return Version(question.version) >= Version("0.5.20")


def _per_token(attention: list[Spec]) -> int:
    """Bytes per token over all layers; window layers count by their share of the tokens."""
    full = [spec.per_token for spec in attention if spec.kind != SLIDING]
    window = [spec.per_token for spec in attention if spec.kind == SLIDING]
    if not full:
        return sum(window)
    return sum(full) + int(reserve.WINDOW_SHARE * sum(window))


def _speculative_states(shape: Shape, question: Question, drafts: bool) -> int:
    """Recurrent states kept per draft token and request while drafts are verified (``handle_max_mamba_cache``)."""
    count = sum(layer.kind == RECURRENT for layer in shape.layers)
    if not drafts or not count:
        return 0
    requests = question.seqs or reserve.SPECULATIVE_REQUESTS
    plain = replace(question.settings, speculative=0)
    return count * state_bytes(shape, plain) * requests * max(question.settings.speculative, 1)


def _weights(model: Model) -> int:
    return sum(part.per_gpu for part in (model.weights, model.drafter_weights) if part)


def budget(model: Model, question: Question) -> Budget:
    """The budget of the engine that is asked about."""
    if question.gpus.ram:
        return ram_budget(model, question)
    return vllm_budget(model, question) if question.engine == "vllm" else sglang_budget(model, question)


def longest(model: Model, question: Question, *, pool: str = "pool_low") -> int:
    """The longest context, in tokens, whose one request fits the pool; 0 when not even one token does."""
    low, high = 0, 1 << 24
    while low < high:
        middle = (low + high + 1) // 2
        found = budget(model, replace(question, context=middle))
        if found.need <= getattr(found, pool):
            low = middle
        else:
            high = middle - 1
    return low
