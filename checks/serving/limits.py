"""The thresholds of a judgement, with their usual values; a service may have its own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace

from checks.errors import BadInput

MIN_PASSIVE_DRAFTS = 30
"""What little traffic must bring before a passive look judges it: 0.15 and 0.6 are five deviations apart."""


@dataclass(frozen=True)
class Limits:
    """Ratios against the baseline, except ``drafts`` (how many a judgement needs) and those of compared answers:
    ``answers_logprob`` (mean difference of log-probabilities, nats), ``answers_first_token`` (share that agrees) and
    ``answers_tie`` (two tokens this near each other, in nats, are one choice to the rounding of the arithmetic).

    Identical runs differed by 7 % in speed; 200 drafts leave 4 to 5 % of chance in a length. Neighbouring bfloat16
    numbers between 16 and 32, where the greatest logits lie, are 0.125 apart: two of them make a tie.
    """

    speed_fail: float = 0.8
    speed_warn: float = 0.9
    length_fail: float = 0.8
    length_warn: float = 0.9
    step_warn: float = 1.25
    step_fail: float = 1.5
    drafts: float = 200.0
    answers_logprob: float = 0.1
    answers_first_token: float = 0.95
    answers_tie: float = 0.25


def overridden(pairs: Iterable[str]) -> Limits:
    """Limits with some replaced, as ``speed_fail=0.7``. Raises BadInput for an unknown name or no number."""
    limits = Limits()
    names = [item.name for item in fields(Limits)]
    for pair in pairs:
        name, _, text = pair.partition("=")
        if name not in names:
            raise BadInput(f"--limit {pair[:60]!r}: no such limit; there are {', '.join(names)}")
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not 0 < value < 1e6:
            raise BadInput(f"--limit {pair[:60]!r}: give a number above 0, like {name}=0.7")
        limits = replace(limits, **{name: value})
    return limits
