"""Log-probabilities that go with an answer: made up as the words are, and as repeatable.

So that a comparison of two services (same token, same log-probability) has something to compare.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Any

from .generation import Token, draw
from .model import Model
from .protocol import Request


@dataclass(frozen=True)
class Scored:
    """A token of the answer, its log-probability, and the ``(token, log-probability)`` pairs of the best."""

    token: str
    text: str
    logprob: float
    best: tuple[tuple[str, float], ...]


def score(model: Model, request: Request, tokens: tuple[Token, ...], done: int) -> list[Scored]:
    """``tokens`` with their log-probabilities; ``done`` tokens of the answer came before them."""
    return [_one(model, request, token, done + index) for index, token in enumerate(tokens)]


def _one(model: Model, request: Request, token: Token, position: int) -> Scored:
    key = request.wish.key
    # The chosen token has more than half of the probability: no other can be before it.
    logprob = -0.6 * draw(key, b"logprob", position)
    best, below = [(model.tokens[token.id], logprob)], logprob - 1.5
    # The words that follow in the vocabulary are the alternatives; bisect_right leaves out the token itself.
    after = bisect_right(model.words, token.id)
    for rank in range(1, min(request.logprobs or 0, len(model.words))):
        other = model.words[(after + rank - 1) % len(model.words)]
        below -= draw(key, b"other", position, rank)
        best.append((model.tokens[other], below))
    return Scored(model.tokens[token.id], token.text, logprob, tuple(best[: request.logprobs or 0]))


def for_completion(scored: list[Scored], offset: int) -> dict[str, Any]:
    """The form of ``/v1/completions``; ``offset`` characters of text came before."""
    offsets = []
    for token in scored:
        offsets.append(offset)
        offset += len(token.text)
    return {
        "text_offset": offsets,
        "tokens": [token.token for token in scored],
        "token_logprobs": [token.logprob for token in scored],
        "top_logprobs": [dict([*token.best, (token.token, token.logprob)]) for token in scored],
    }


def for_chat(scored: list[Scored], offset: int) -> dict[str, Any]:
    """The form of ``/v1/chat/completions``, which knows no offsets."""
    return {
        "content": [
            {
                **_entry(token.token, token.logprob),
                "top_logprobs": [_entry(name, value) for name, value in token.best],
            }
            for token in scored
        ]
    }


def _entry(token: str, logprob: float) -> dict[str, Any]:
    return {"token": token, "logprob": logprob, "bytes": list(token.encode())}
