"""The numbers of one scrape, the difference of two, and what they say about acceptance and speed."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from checks.data.metric_names import METRICS
from checks.errors import BadInput
from checks.serving.metrics import Page


@dataclass(frozen=True)
class Counters:
    """Counts (drafts, tokens, requests), seconds and gauges of one scrape or one window; None = not published.

    ``per_position[i]`` counts accepted tokens at draft position i; the rest is described row by row in
    :mod:`checks.data.metric_names`.
    """

    drafts: float | None = None
    draft_tokens: float | None = None
    accepted: float | None = None
    per_position: tuple[float, ...] | None = None
    prompt_tokens: float | None = None
    generation_tokens: float | None = None
    preemptions: float | None = None
    decode_seconds: float | None = None
    decode_requests: float | None = None
    ttft_seconds: float | None = None
    ttft_requests: float | None = None
    itl_seconds: float | None = None
    itl_tokens: float | None = None
    running: float | None = None
    waiting: float | None = None
    kv_usage: float | None = None
    accept_length: float | None = None
    draft_slots: float | None = None
    cuda_graph: float | None = None
    gen_throughput: float | None = None


_GAUGES = frozenset(row.field for row in METRICS if row.kind == "gauge")


def of_page(page: Page) -> Counters:
    """The counters of one scrape, over all engines; gauges are joined as their rows say."""
    read: dict[str, float | None] = {}
    for row in METRICS:
        name = row.sglang if page.dialect == "sglang" else row.vllm
        values = page.by_engine(name) if name else []
        if not values:
            continue
        if row.kind == "counter" or row.join == "sum":
            read[row.field] = sum(values)
        elif row.join == "least":
            read[row.field] = min(filter(None, values), default=0.0)
        else:
            read[row.field] = sum(values) / len(values)
    counters = Counters(per_position=page.per_position(), **read)
    _check(counters)
    return counters


def difference(before: Counters, after: Counters) -> Counters:
    """What was counted between two scrapes. Gauges are those of ``after``.

    Raises BadInput when a counter went backwards: the engine was restarted in between, or the scrapes are swapped.
    """
    changed: dict[str, object] = {}
    for item in fields(Counters):
        new, old = getattr(after, item.name), getattr(before, item.name)
        if new is None or item.name in _GAUGES:
            continue
        if item.name == "per_position":
            width = max(len(new), len(old or ()))
            pairs = [(_at(new, i), _at(old or (), i)) for i in range(width)]
        else:
            pairs = [(new, old or 0.0)]
        if any(late < early for late, early in pairs):
            raise BadInput(
                f"the counter {item.name} went backwards between the two scrapes: the engine was restarted in"
                " the window or the scrapes are swapped, so nothing measured in it counts. Measure again."
            )
        gains = tuple(late - early for late, early in pairs)
        changed[item.name] = gains if item.name == "per_position" else gains[0]
    window = replace(after, **changed)  # type: ignore[arg-type]
    _check(window)
    return window


def _at(values: tuple[float, ...], index: int) -> float:
    return values[index] if index < len(values) else 0.0


def _check(counters: Counters) -> None:
    """Counts that cannot all be true at once are refused: nothing may be concluded from them."""
    drafts, accepted, drafted = counters.drafts, counters.accepted, counters.draft_tokens
    if accepted is not None and drafted is not None and accepted > drafted * 1.001 + 1:
        raise BadInput(
            f"{accepted:.0f} accepted of {drafted:.0f} drafted tokens: the counters contradict one another"
        )
    if drafts and counters.per_position and max(counters.per_position) > drafts * 1.001 + 1:
        raise BadInput(
            f"a position accepted {max(counters.per_position):.0f} tokens in {drafts:.0f} drafts: "
            "the counters contradict one another"
        )
