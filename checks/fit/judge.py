"""Findings of a fit question. Pure: the model was read, the GPUs are known, nothing else is looked at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from checks.fit.advice import advice
from checks.fit.ask import Budget, Model, Question
from checks.fit.engines import budget, layers_of, longest
from checks.fit.gpus import GIB, Gpus
from checks.fit.shape import RECURRENT, undivided
from checks.model import Finding, Status


def gib(size: float) -> float:
    """GiB with two digits, for a report."""
    return round(size / GIB, 2)


def judge(model: Model, question: Question) -> tuple[list[Finding], dict[str, Any]]:
    """One finding per check, and the figures they rest on."""
    findings = [_ranks(model, question), _positions(model, question), *_sizes(model, question.gpus.place)]
    unread = [*model.target.unread, *(model.drafter.unread if model.drafter else ())]
    if unread:
        text = f"the cache of this model cannot be computed: {', '.join(unread)}"
        fix = "ask the engine itself: start it once and read its own cache size from the log"
        findings.append(_finding("fit.cache", Status.UNKNOWN, "target", text, fix=fix))
    if unread or model.weights is None or (model.drafter and model.drafter_weights is None):
        text = "whether it fits cannot be said: " + (
            "; ".join(f.message for f in findings if f.status is Status.UNKNOWN)
        )
        return [*findings, _finding("fit.memory", Status.UNKNOWN, "host", text)], {}
    if any(finding.status is Status.FAIL for finding in findings[:1]):
        text = "memory was not computed: this split of the model is refused before it matters"
        return [*findings, _finding("fit.memory", Status.SKIP, "host", text)], {}
    found = budget(model, question)
    findings += [_cache(model, question, found), _memory(model, question, found)]
    return findings, figures(model, question, found)


def _finding(identity: str, status: Status, subject: str, message: str, **rest: Any) -> Finding:
    return Finding(identity, status, subject, message, owner="user", **rest)


def _ranks(model: Model, question: Question) -> Finding:
    """Both engines divide heads by ranks and refuse what does not divide."""
    tp, count = question.settings.tp, len(question.gpus.usable)
    wrong = []
    if tp > count:
        wrong.append(f"{tp} ranks on {count} GPU{'s' if count != 1 else ''}")
    for name, shape in (("target", model.target), ("drafter", model.drafter)):
        if shape:
            wrong += [f"{name}: {text}" for text in undivided(shape, tp)]
    if wrong:
        sizes = [n for n in range(count, 0, -1) if not _all_undivided(model, n)]
        fix = f"use --tp {sizes[0]}" if sizes else "use another number of GPUs"
        text = f"tensor parallel {tp} is refused: {'; '.join(wrong)}"
        return _finding("fit.ranks", Status.FAIL, "engine", text, value=tp, fix=fix)
    kv = model.target.kv_heads
    copies = tp // kv if kv < tp and not model.target.latent else 1
    note = f"; each of {kv} key/value heads is kept {copies} times" if copies > 1 else ""
    return _finding(
        "fit.ranks", Status.PASS, "engine", f"tensor parallel {tp} divides all heads{note}", value=tp
    )


def _all_undivided(model: Model, tp: int) -> list[str]:
    return undivided(model.target, tp) + (undivided(model.drafter, tp) if model.drafter else [])


def _positions(model: Model, question: Question) -> Finding:
    limit = model.target.max_positions
    if limit is None:
        text = "the config does not say how many positions the model was made for"
        return _finding(
            "fit.positions", Status.WARN, "target", text, fix="find the model's length on its card"
        )
    if question.context > limit:
        text = f"a context of {question.context} is beyond the model's {limit} positions; the engine refuses to start"
        fix = f"ask for at most {limit}, or add the rope scaling that the model card gives"
        return _finding(
            "fit.positions", Status.FAIL, "target", text, value=question.context, limit=limit, fix=fix
        )
    text = f"a context of {question.context} is within the model's {limit} positions"
    return _finding("fit.positions", Status.PASS, "target", text, value=question.context, limit=limit)


def _sizes(model: Model, place: str) -> list[Finding]:
    """Weights of target and drafter."""
    out = []
    for subject, shape, known in (
        ("target", model.target, model.weights),
        ("drafter", model.drafter, model.drafter_weights),
    ):
        if shape is None:
            continue
        if known is None:
            text = (
                f"the size of the {subject}'s weights is not known: neither an index nor complete safetensors"
            )
            fix = "fetch model.safetensors.index.json, or the one model.safetensors when there is no index"
            out.append(_finding("fit.weights", Status.UNKNOWN, subject, text, fix=fix))
            continue
        left = "".join(f"; not counted: {gib(size)} GiB {why}" for why, size in known.left_out.items())
        text = f"{gib(known.per_gpu)} GiB of {gib(known.whole)} GiB weights {place}"
        text += f", from the {known.known_by}{left}"
        out.append(_finding("fit.weights", Status.PASS, subject, text, value=gib(known.per_gpu), unit="GiB"))
    return out


def _cache(model: Model, question: Question, found: Budget) -> Finding:
    layers = layers_of(model, question)
    kinds: dict[str, int] = {}
    for spec in layers:
        kinds[spec.kind] = kinds.get(spec.kind, 0) + 1
    listed = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    text = (
        f"one request of {question.context} tokens needs {gib(found.need)} GiB of cache {question.gpus.place}"
    )
    text += f" ({listed} layers, {question.settings.dtype} cache)"
    if found.states:
        text += f"; {gib(found.states)} GiB more hold recurrent states while drafts are verified"
    return _finding("fit.cache", Status.PASS, "target", text, value=gib(found.need), unit="GiB")


def _memory(model: Model, question: Question, found: Budget) -> Finding:
    """The sum. Between the least and the most that an engine may keep for itself nothing is promised."""
    parts = f"{gib(found.weights)} weights + {gib(found.need)} cache"
    if found.states:
        parts += f" + {gib(found.states)} states"
    low = sum(item.low for item in found.items) if question.engine == "vllm" else 0
    high = sum(item.high for item in found.items) if question.engine == "vllm" else 0
    own = f" + {gib(low)} to {gib(high)} for the engine itself" if high else ""
    head = f"{parts}{own} GiB of {gib(found.share)} GiB, which is {found.rule}"
    common = {
        "value": gib(found.weights + found.need + found.states + high),
        "limit": gib(found.share),
        "unit": "GiB",
    }
    if found.need <= found.pool_low:
        count = found.pool_low / found.need if found.need else 0
        text = f"it fits: {head}; {count:.1f} such requests at once"
        return _finding("fit.memory", Status.PASS, "host", text, **common)
    fix = advice(model, question, found)
    if found.need <= found.pool_high:
        text = f"it may fit, within the error of this estimate: {head}"
        return _finding("fit.memory", Status.WARN, "host", text, fix=fix, **common)
    short = found.need - found.pool_high
    text = f"it does not fit: {head}; {gib(short)} GiB are missing {question.gpus.place}"
    return _finding(
        "fit.memory", Status.FAIL, "host", text, fix=fix, cause=_cause(found, question.gpus), **common
    )


def _cause(found: Budget, gpus: Gpus) -> str:
    if gpus.ram:
        return "weights, processes and the cache of one request are more than the memory"
    if found.weights >= found.share:
        return "the weights alone are larger than the engine's share of a GPU"
    if found.states > found.share - found.weights:
        return "the recurrent states for verifying drafts do not fit beside the weights"
    return "the cache of one request is larger than what the weights leave"


def figures(model: Model, question: Question, found: Budget) -> dict[str, Any]:
    """All numbers of the sum, per GPU, for a program and for a reader who wants to check them."""
    items: list[Mapping[str, Any]] = [
        {"name": item.name, "low_gib": gib(item.low), "high_gib": gib(item.high), "source": item.source}
        for item in found.items
    ]
    return {
        "engine": f"{question.engine}=={question.version}",
        "memory": "ram" if question.gpus.ram else "gpu",
        "ranks": question.settings.tp,
        "takes_gib": gib(found.takes),
        "gpus": len(question.gpus.usable),
        "gpus_from": question.gpus.source,
        "usable_gib": gib(question.gpus.least),
        "share_gib": gib(found.share),
        "weights_gib": gib(found.weights),
        "reserve": items,
        "pool_gib": [gib(found.pool_low), gib(found.pool_high)],
        "request_gib": gib(found.need),
        "states_gib": gib(found.states),
        "longest_context": [longest(model, question), longest(model, question, pool="pool_high")],
        "recurrent_layers": sum(layer.kind == RECURRENT for layer in model.target.layers),
    }
