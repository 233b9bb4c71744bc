"""Both sides of a comparison of answers: what was kept of the source, what the target did with it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from checks.data.questions import QUESTIONS
from checks.model import Finding, Status
from checks.serving.answers_form import Answers, Item
from checks.serving.limits import Limits

BROKE = "broke: "
"""Begins why an item has no answer where the server failed at it; else it was refused, or nothing shows it."""

PATIENCE = 3
"""Questions in a row that may fail before a server is taken for one that fails: each may cost the whole deadline."""


@dataclass(frozen=True)
class Said:
    """One greedy answer: token ids, their log-probabilities in nats (None where the engine tells none)."""

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...] | None
    text: str
    finish: str


@dataclass(frozen=True)
class Scored:
    """Given tokens under this server: their log-probabilities in nats, and those of the likeliest at each place."""

    logprobs: tuple[float, ...]
    ranked: tuple[Mapping[int, float], ...]

    def behind(self, at: int, token: int) -> float:
        """How far ``token`` lies behind the likeliest one at a place, in nats; infinity where that is not told."""
        if at >= len(self.ranked):
            return float("inf")
        told = {**self.ranked[at]}
        return max(told.values()) - told[token] if token in told else float("inf")


@dataclass(frozen=True)
class Held:
    """What the target does with one kept answer. ``trouble`` is empty when it took all that it was asked;
    ``refused``: why it renders no such prompt; ``forced``: place in the answer -> what it says there."""

    id: str
    prompt: tuple[int, ...] | None = None
    length: int | None = None
    spelled: str | None = None
    scored: Scored | None = None
    said: Said | None = None
    forced: dict[int, int] = field(default_factory=dict)
    refused: str = ""
    trouble: str = ""


@dataclass
class Met:
    """How a round of questions went: ``down``: why it could not be looked at; ``stopped``: why it ended early;
    ``no_probabilities``: the server's own words for telling none."""

    down: str = ""
    stopped: str = ""
    no_probabilities: str = ""

    def over(self, failed: int, why: str, late: bool) -> bool:
        """Is the round to end? ``failed``: questions in a row, the last for the reason ``why``; ``late``: the time is
        up, and ``why`` is what took it."""
        if failed >= PATIENCE or (failed and late):
            self.stopped = f"{failed} questions in a row failed, the last with: {why}" if failed > 1 else why
        return bool(self.stopped)


@dataclass(frozen=True)
class Compared:
    """Both sides of a comparison. ``files``: sha256 of the target's tokenizer files; ``exact``: equal answers are
    demanded (same kind of GPU, engine and tensor-parallel size)."""

    source: Answers
    held: Mapping[str, Held]
    met: Met
    kind: str
    files: Mapping[str, str]
    exact: bool
    limits: Limits

    @property
    def untold(self) -> tuple[str, ...]:
        """Why probabilities are not told, of each of the two that tells none."""
        return tuple(why for why in (self.source.no_probabilities, self.met.no_probabilities) if why)

    def pairs(self) -> list[tuple[Item, Held]]:
        """What the source answered and the target weighed."""
        both = ((self.source.items[one.id], self.held.get(one.id)) for one in QUESTIONS)
        return [(item, held) for item, held in both if item.tokens and held is not None and not held.trouble]


def finding(
    ident: str,
    status: Status,
    message: str,
    fix: str | None,
    value: Any = None,
    limit: Any = None,
    unit: str | None = None,
) -> Finding:
    return Finding(
        ident, status, "engine", message, value=value, limit=limit, unit=unit, fix=fix, owner="user"
    )
