"""Log-probabilities that go with an answer: made up as the words are, and as repeatable.

So that a comparison of two services (same token, same log-probability) has something to compare.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Any

from .generation import Token, draw, likeliest, logprob, state, states
from .model import Model
from .protocol import Request


@dataclass(frozen=True)
class Scored:
    """A token of the answer, its log-probability, and the ``(token, log-probability)`` pairs of the best."""

    token: str
    text: str
    logprob: float
    best: tuple[tuple[str, float], ...]


def score(model: Model, request: Request, tokens: tuple[Token, ...], made: list[int]) -> list[Scored]:
    """``tokens`` with their log-probabilities; ``made`` tokens of the answer came before them."""
    ids = [*made, *(token.id for token in tokens)]
    return [_one(model, request, token, ids[: len(made) + index]) for index, token in enumerate(tokens)]


def for_prompt(model: Model, prompt: tuple[int, ...], most: int) -> list[dict[str, dict[str, Any]] | None]:
    """Each token of a prompt with its log-probability by what came before it, and the likeliest where ``most`` asks for
    one: the form of vLLM's ``prompt_logprobs``, whose first has none."""
    rows: list[dict[str, dict[str, Any]] | None] = [None]
    if len(prompt) == 1:
        return rows
    for token, known in zip(prompt[1:], states(model, prompt[:-1], 1), strict=True):
        ranked = [token] if most == 0 else sorted({token, likeliest(model, known)})
        rows.append(
            {
                str(one): {
                    "logprob": logprob(model, known, one),
                    "rank": 1 if one == likeliest(model, known) else 2,
                    "decoded_token": model.tokens[one],
                }
                for one in ranked
            }
        )
    return rows


def _one(model: Model, request: Request, token: Token, made: list[int]) -> Scored:
    key, position = request.wish.key, len(made)
    # The chosen token has more than half of the probability: no other can be before it.
    value = -0.6 * draw(key, b"logprob", position)
    if request.wish.context is not None:
        key, position = state(model, (*request.wish.context, *made)), 0
        value = logprob(model, key, token.id)
    name = f"token_id:{token.id}" if request.named_by_id else model.tokens[token.id]
    best, below = [(name, value)], value - 1.5
    # The words that follow in the vocabulary are the alternatives; bisect_right leaves out the token itself.
    after = bisect_right(model.words, token.id)
    for rank in range(1, min(request.logprobs or 0, len(model.words))):
        other = model.words[(after + rank - 1) % len(model.words)]
        below -= draw(key, b"other", position, rank)
        best.append((f"token_id:{other}" if request.named_by_id else model.tokens[other], below))
    return Scored(name, token.text, value, tuple(best[: request.logprobs or 0]))


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
