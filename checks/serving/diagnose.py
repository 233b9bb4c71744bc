"""Ranks the causes of what was seen, says why the others are out, and asks for the evidence that is missing."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from checks.data.causes import CAUSES, CauseRow
from checks.data.references import reference_for
from checks.serving.drafterdiff import IDS, MASK, ROPE
from checks.serving.evidence import Evidence
from checks.serving.opinion import ASK_OFF, Opinion, Stance
from checks.serving.rules_bands import seen_healthy_before
from checks.serving.rules_machine import ACCEPTANCE_IS_COUNTED
from checks.serving.signs import Signs, signs_of, speed_ratio
from checks.serving.since import context_of, suspect_words

DETERMINED = 0.5
"""Weight from which a cause is named; below it the outcome is "undetermined" with candidates."""

NOTHING = "nothing to explain"
"""The headline where no symptom of drafts or speed was seen and no cause found; it is no cause of a failure."""

_HEADLINES = {
    "configuration": "drafter configuration",
    "weights": "drafter weights",
    "pairing": "drafter and target do not belong together",
    "prompts": "prompts or thinking mode",
    "tuning": "tuning of speculation",
    "engine": "engine version or state",
    "infrastructure": "infrastructure",
    "measurement": "the comparison itself",
}
_CLOSE = 0.05


@dataclass(frozen=True)
class Ranked:
    """``rank`` starts at 1; causes whose evidence cannot be told apart share a rank."""

    row: CauseRow
    opinion: Opinion
    rank: int


@dataclass(frozen=True)
class Diagnosis:
    signs: Signs
    causes: tuple[Ranked, ...]
    excluded: tuple[tuple[CauseRow, str], ...]
    asks: tuple[str, ...]
    headline: str
    determined: bool
    context: tuple[str, ...] = ()


def diagnose(e: Evidence) -> Diagnosis:
    """All rules over one run. A cause needs no symptom when a file or log states it directly."""
    signs = signs_of(e)
    opinions = _modest([(row, _discounted(e, row, row.when(e, signs))) for row in CAUSES])
    held = sorted(
        ((row, opinion) for row, opinion in opinions if opinion.stance is Stance.SUPPORTED),
        key=lambda pair: -pair[1].weight,
    )
    causes = _rank(held)
    out = tuple((row, opinion.because) for row, opinion in opinions if opinion.stance is Stance.EXCLUDED)
    asks = [
        opinion.ask
        for _, opinion in (*held, *opinions)
        if opinion.ask and opinion.stance is not Stance.EXCLUDED
    ]
    if signs.any and e.spec_counted and e.off is None and not signs.died:
        asks.append(ASK_OFF)
    determined = bool(causes) and causes[0].opinion.weight >= DETERMINED
    return Diagnosis(
        signs,
        causes,
        out,
        tuple(dict.fromkeys(asks)),
        _headline(e, signs, causes, out, determined),
        determined,
        context_of(e),
    )


_FILES = ("configuration", "weights", "pairing")


def _discounted(e: Evidence, row: CauseRow, opinion: Opinion) -> Opinion:
    """A fault of the files explains little when the same method was healthy on another engine version: files do not
    change with it. What a file or log states directly stays."""
    if row.family not in _FILES or not 0.4 < opinion.weight < 0.93 or not seen_healthy_before(e):
        return opinion
    version = e.baseline.version if e.baseline else None
    return replace(opinion, weight=0.4, because=f"{opinion.because}; but the same was healthy on {version}")


def _modest(opinions: list[tuple[CauseRow, Opinion]]) -> list[tuple[CauseRow, Opinion]]:
    """A difference from the baseline is a hint; what the counters, the log or the files show goes before it."""
    shown = [
        opinion.weight
        for row, opinion in opinions
        if opinion.stance is Stance.SUPPORTED and row.id not in _HINTS and opinion.weight >= DETERMINED
    ]
    if not shown:
        return opinions
    most = max(shown) - 2 * _CLOSE
    return [
        (row, replace(opinion, weight=min(opinion.weight, most)) if row.id in _HINTS else opinion)
        for row, opinion in opinions
    ]


_HINTS = ("drift", "other_drafter")


def _rank(held: list[tuple[CauseRow, Opinion]]) -> tuple[Ranked, ...]:
    ranked: list[Ranked] = []
    for index, (row, opinion) in enumerate(held, 1):
        previous = ranked[-1] if ranked else None
        same = previous is not None and previous.opinion.weight - opinion.weight < 1e-9
        ranked.append(Ranked(row, opinion, previous.rank if same and previous else index))
    return tuple(ranked)


def leaders(causes: tuple[Ranked, ...]) -> list[Ranked]:
    """The causes that the numbers cannot tell from the first: to be mended together."""
    if not causes:
        return []
    top = causes[0].opinion.weight
    return [
        ranked
        for ranked in causes
        if top - ranked.opinion.weight < _CLOSE and ranked.opinion.weight >= DETERMINED
    ]


def _headline(
    e: Evidence,
    signs: Signs,
    causes: tuple[Ranked, ...],
    out: tuple[tuple[CauseRow, str], ...],
    determined: bool,
) -> str:
    if not signs.any and not causes:
        return NOTHING
    if not signs.enough and not determined:
        return "too few drafts to conclude anything"
    if not determined:
        names = ", ".join(ranked.row.title for ranked in causes[:4]) or "no rule fits"
        return f"undetermined; candidates: {names}"
    leading = leaders(causes)
    families = list(dict.fromkeys(_HEADLINES[ranked.row.family] for ranked in leading))
    named = " or ".join(families) + ": " + ", or ".join(_titled(e, signs, ranked) for ranked in leading)
    if len(leading) > 1 and len(leading) == sum(ranked.rank == causes[0].rank for ranked in causes):
        named += " (equal by these numbers)"
    machine = [ranked for ranked in causes if ranked.row.family == "infrastructure"]
    if machine and machine[0] not in leading and signs.slow_step and machine[0].opinion.weight >= DETERMINED:
        return f"{named}; and besides, infrastructure: {machine[0].row.title}"
    if signs.poor_acceptance and not any(ranked in machine for ranked in leading):
        reasons = [split_of_loss(e), ACCEPTANCE_IS_COUNTED]
        reasons += [why for row, why in out if row.family == "infrastructure"]
        return f"{named}; infrastructure excluded because {'; '.join(dict.fromkeys(filter(None, reasons)))}"
    return named


def _titled(e: Evidence, signs: Signs, ranked: Ranked) -> str:
    """The title, with the very change since the baseline where one is known: without it the title says too little."""
    if ranked.row.id in _BY_COMPARISON:
        return f"{ranked.row.title} ({ranked.opinion.because})"
    words = suspect_words(e, signs, _SUSPECTS.get(ranked.row.id, ()))
    return ranked.row.title + (f" ({words} since the baseline)" if words else "")


_BY_COMPARISON = ("drift", "other_drafter", "speculation_off")
_SUSPECTS = {"mask_token": MASK, "rope": ROPE, "layer_ids": IDS}


def split_of_loss(e: Evidence) -> str:
    """How much of a loss against the baseline is acceptance and how much is time per step, as factors.

    tokens/s = length / step, so the factor of the loss is the product of the two; an unknown length of the baseline
    is replaced by the published one of this model and method, and said so.
    """
    ratio = speed_ratio(e)
    if ratio is None or ratio >= 1 or e.acceptance is None or e.speed is None or e.baseline is None:
        return ""
    reference = reference_for(str(e.settings.get("model") or ""), e.method, e.k)
    length = e.baseline.length or (reference.usual if reference else None)
    if not length or not e.speed.ms_per_step:
        return ""
    whose = "" if e.baseline.length else f", taking the published length of {length:g} for a healthy one"
    by_length = length / e.acceptance.length
    by_step = (1 / ratio) / by_length
    share = math.log(by_length) / math.log(1 / ratio) if ratio < 1 else 0.0
    return (
        f"of the {1 / ratio:.1f}x lost, {by_length:.1f}x is acceptance ({min(share, 1):.0%}) and"
        f" {by_step:.1f}x time per step ({e.speed.ms_per_step:.0f} ms{whose})"
    )


def as_facts(found: Diagnosis) -> dict[str, Any]:
    """The diagnosis for ``facts.diagnosis`` of the report."""
    return {
        "headline": found.headline,
        "determined": found.determined,
        "causes": [
            {
                "id": ranked.row.id,
                "rank": ranked.rank,
                "weight": round(ranked.opinion.weight, 2),
                "family": ranked.row.family,
                "title": ranked.row.title,
                "because": ranked.opinion.because,
                "fix": ranked.row.fix,
                "source": ranked.row.source,
                "settled_by": ranked.opinion.ask,
            }
            for ranked in found.causes
        ],
        "excluded": [{"id": row.id, "title": row.title, "because": why} for row, why in found.excluded],
        "asks": list(found.asks),
        "context": list(found.context),
    }
