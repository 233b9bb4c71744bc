"""What to lower, by how much: every single change that would make it fit, else pairs, the mildest first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

from checks.fit.ask import Budget, Model, Question
from checks.fit.engines import VLLM_SHARE, budget, longest
from checks.fit.gpus import GIB
from checks.fit.shape import RECURRENT
from checks.fit.weights import Weights

SHARES = {"vllm": (0.94, 0.95, 0.96, 0.97), "sglang": (0.8, 0.85, 0.88, 0.9)}
"""Shares worth trying. SGLang's own examples stay at or below 0.9: graphs and activations live in the rest."""


class Change(NamedTuple):
    """One setting of the engine and what the question becomes with it. ``kind``: settings of one kind never pair."""

    kind: str
    text: str
    question: Question


def fits(model: Model, question: Question) -> bool:
    """Even with the most that the engine may keep for itself."""
    found = budget(model, question)
    return found.need <= found.pool_low


def advice(model: Model, question: Question, found: Budget) -> str:
    """Changes that suffice, joined by "or"; where none does, how much memory is wanted."""
    if question.gpus.ram:
        length = longest(model, question)
        shorter = f"ask for --max-model-len of at most {length}; or " if length else ""
        return f"{shorter}raise VLLM_CPU_KVCACHE_SPACE where the cache is too small, else give the guest more memory"
    changes = [*_share(question), *_dtype(question), *_requests(question), *_states(model, question)]
    ways = _context(model, question) + list(_first_of_each_kind(model, changes))
    if not ways:
        ways = list(_pairs(model, question, changes))[:2]
    ways += [*_drafter(model, question), *_more(model, question)]
    if ways:
        return "; or ".join(ways)
    own = found.share - found.weights - found.states - found.pool_low
    wanted = found.weights + found.need + found.states + own
    return (
        f"no change is enough: {wanted / GIB:.1f} GiB per GPU are wanted; use smaller weights or larger GPUs"
    )


def _first_of_each_kind(model: Model, changes: list[Change]) -> Iterator[str]:
    done = set()
    for change in changes:
        if change.kind not in done and fits(model, change.question):
            done.add(change.kind)
            yield change.text


def _pairs(model: Model, question: Question, changes: list[Change]) -> Iterator[str]:
    """Two settings together, the first sufficient strength of each pair of kinds."""
    done = set()
    for one, two in combinations(changes, 2):
        kinds = (one.kind, two.kind)
        if one.kind == two.kind or kinds in done:
            continue
        if fits(model, _both(question, one.question, two.question)):
            done.add(kinds)
            yield f"{one.text} and {two.text}"


def _both(base: Question, one: Question, two: Question) -> Question:
    """``one`` with everything in which ``two`` differs from ``base``."""
    different = {
        k: getattr(two, k) for k in Question.__dataclass_fields__ if getattr(two, k) != getattr(base, k)
    }
    return replace(one, **different)


def _context(model: Model, question: Question) -> list[str]:
    rounded = longest(model, question) // 256 * 256
    if rounded < 1024:
        return []
    option = "--max-model-len" if question.engine == "vllm" else "--context-length"
    return [f"lower {option} to {rounded}"]


def _share(question: Question) -> Iterator[Change]:
    option = "--gpu-memory-utilization" if question.engine == "vllm" else "--mem-fraction-static"
    now = question.fraction or (VLLM_SHARE if question.engine == "vllm" else 0.0)
    for share in SHARES[question.engine]:
        if share > now:
            text = f"set {option} {share:.2f} (if nothing else uses these GPUs)"
            yield Change("share", text, replace(question, fraction=share))


def _dtype(question: Question) -> Iterator[Change]:
    if question.settings.dtype in ("auto", "bfloat16", "bf16", "float16"):
        kind = "fp8" if question.engine == "vllm" else "fp8_e4m3"
        smaller = replace(question, settings=replace(question.settings, dtype=kind))
        yield Change("dtype", f"store the cache in eight bits (--kv-cache-dtype {kind})", smaller)


def _requests(question: Question) -> Iterator[Change]:
    """Fewer requests at once: sampler memory in vLLM, states of drafts under verification in SGLang."""
    option = "--max-num-seqs" if question.engine == "vllm" else "--max-running-requests"
    for count in (128, 64, 32, 16, 8, 4, 2, 1):
        if question.seqs is None or count < question.seqs:
            yield Change("requests", f"lower {option} to {count}", replace(question, seqs=count))


def _states(model: Model, question: Question) -> Iterator[Change]:
    if question.engine == "sglang" and any(layer.kind == RECURRENT for layer in model.target.layers):
        for ratio in (0.5, 0.3, 0.2, 0.1):
            if ratio < (question.state_share or 0.9):
                text = f"lower --mamba-full-memory-ratio to {ratio}"
                yield Change("states", text, replace(question, state_share=ratio))


def _drafter(model: Model, question: Question) -> list[str]:
    if model.drafter is None and not question.mtp:
        return []
    plain = replace(question, mtp=False, settings=replace(question.settings, speculative=0))
    return (
        ["serve without the drafter"]
        if fits(replace(model, drafter=None, drafter_weights=None), plain)
        else []
    )


def _more(model: Model, question: Question) -> list[str]:
    """More GPUs of the same kind; weights are split evenly, a little optimistic for what every rank holds."""
    tp = question.settings.tp
    for factor in (2, 4, 8):
        wider = replace(question.settings, tp=tp * factor)
        if tp * factor > 16 or model.target.heads % (tp * factor):
            break
        drafter = _split(model.drafter_weights, factor)
        spread = replace(model, weights=_split(model.weights, factor), drafter_weights=drafter)
        if fits(spread, replace(question, settings=wider)):
            return [f"use {tp * factor} such GPUs"]
    return []


def _split(known: Weights | None, factor: int) -> Weights | None:
    return replace(known, per_gpu=-(-known.per_gpu // factor)) if known else None
