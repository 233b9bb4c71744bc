"""What is answered, decided before the first byte is sent: a pure function of model, prompt, parameters."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from .model import Model
from .speculation import Speculation

# One token in 64 ends an answer, so that a free answer is some 70 tokens long.
EOS_ONE_IN = 64
EOS_NOT_BEFORE = 8


@dataclass(frozen=True)
class Token:
    """One generated token and the text that it adds to the answer."""

    id: int
    text: str


@dataclass(frozen=True)
class Step:
    """One pass of the engine. ``accepted`` is ``None`` for a pass without drafts, which makes one token.

    With drafts, ``len(tokens) == accepted + 1``: the accepted ones and the bonus token.
    """

    tokens: tuple[Token, ...]
    accepted: int | None


@dataclass(frozen=True)
class Plan:
    steps: tuple[Step, ...]
    finish: Literal["stop", "length", "abort"]

    @property
    def tokens(self) -> tuple[Token, ...]:
        return tuple(token for step in self.steps for token in step.tokens)


@dataclass(frozen=True)
class Wish:
    """What a request asks for. ``key`` is the prompt (and the seed) as bytes: equal keys, equal answers.

    ``context``: a prompt given as token ids. Each next token then follows from the weights and all ids before it alone,
    as in a real model, so that an answer can be weighed by another engine. It never ends by itself.
    """

    key: bytes
    max_tokens: int
    min_tokens: int = 0
    ignore_eos: bool = False
    stop: tuple[str, ...] = ()
    context: tuple[int, ...] | None = None


def plan(model: Model, speculation: Speculation | None, wish: Wish, fault: str | None = None) -> Plan:
    """The answer as steps. Speculation changes how the tokens are grouped into steps, never the tokens.

    A draft is cut at the end of the answer: accepted tokens beyond it would be counted and never be seen.
    """
    if fault == "wrong-answers":
        wish = replace(wish, key=b"other:" + wish.key)
    tokens, finish = _tokens(model, wish, fault)
    if fault == "cut-off":
        return Plan(tuple(Step((token,), None) for token in tokens[:3]), "abort")
    if speculation is None:
        return Plan(tuple(Step((token,), None) for token in tokens), finish)
    # The prompt's own pass yields the first token and drafts nothing.
    steps, done = [Step((tokens[0],), None)], 1
    while done < len(tokens):
        draws = [draw(wish.key, b"draft", done, position) for position in range(speculation.k)]
        accepted = min(speculation.accepted(draws), len(tokens) - done - 1)
        steps.append(Step(tuple(tokens[done : done + accepted + 1]), accepted))
        done += accepted + 1
    return Plan(tuple(steps), finish)


def _tokens(model: Model, wish: Wish, fault: str | None) -> tuple[list[Token], Literal["stop", "length"]]:
    tokens: list[Token] = []
    text = ""
    while len(tokens) < wish.max_tokens:
        token = _token(model, wish, fault, [one.id for one in tokens])
        piece = model.piece(token, first=not text)
        cut = _stop_at(text + piece, wish.stop)
        if cut is not None:
            return [*_clip(tokens, cut), Token(token, (text + piece)[len(text) : cut])], "stop"
        tokens.append(Token(token, piece))
        text += piece
        if token == model.eos and not wish.ignore_eos:
            return tokens, "stop"
    return tokens, "length"


def _token(model: Model, wish: Wish, fault: str | None, made: list[int]) -> int:
    if fault == "empty":
        return model.eos
    if fault == "garbage":
        return model.words[0]
    if wish.context is not None:
        return likeliest(model, state(model, (*wish.context, *made)))
    position = len(made)
    may_end = position >= max(EOS_NOT_BEFORE, wish.min_tokens) and not wish.ignore_eos
    if may_end and draw(wish.key, b"end", position) < 1 / EOS_ONE_IN:
        return model.eos
    return model.words[int(draw(wish.key, b"word", position) * len(model.words))]


def state(model: Model, ids: tuple[int, ...]) -> bytes:
    """What the model knows after these tokens."""
    return next(iter(states(model, ids, len(ids))))


def states(model: Model, ids: tuple[int, ...], first: int = 0) -> Iterator[bytes]:
    """The state after the first ``first`` tokens, after one more, and so on up to all of them."""
    known = hashlib.sha256(model.weights)
    for index, token in enumerate(ids):
        if index >= first:
            yield known.copy().digest()
        known.update(token.to_bytes(8, "big"))
    yield known.digest()


def likeliest(model: Model, known: bytes) -> int:
    return model.words[int(draw(known, b"word", 0) * len(model.words))]


def logprob(model: Model, known: bytes, token: int) -> float:
    """The log-probability of ``token``, nats. The likeliest has more than half of the probability."""
    if token == likeliest(model, known):
        return -0.6 * draw(known, b"logprob", 0)
    return -2.0 - 8.0 * draw(known, b"odd", token)


def draw(key: bytes, what: bytes, *position: int) -> float:
    """A number in [0, 1) that depends on its arguments alone, on every machine and every Python."""
    text = what + b":" + ",".join(map(str, position)).encode() + b":" + key
    return int.from_bytes(hashlib.sha256(text).digest()[:6], "big") / 2**48


def _stop_at(text: str, stops: tuple[str, ...]) -> int | None:
    found = [text.find(stop) for stop in stops if stop in text]
    return min(found) if found else None


def _clip(tokens: list[Token], length: int) -> list[Token]:
    """The tokens with their texts cut so that together they are ``length`` characters at most."""
    clipped, left = [], length
    for token in tokens:
        clipped.append(Token(token.id, token.text[:left]))
        left -= len(clipped[-1].text)
    return clipped
