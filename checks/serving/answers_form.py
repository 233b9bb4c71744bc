"""Kept answers of a service: their form, and what a file or a server may put into it. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from checks.data.questions import QUESTIONS, VERSION
from checks.errors import BadInput
from checks.serving.answers_errors import Broken

SCHEMA = "provcheck-answers/1"
HIGHEST = (1 << 31) - 1
WHOLE = ("stop", "length")
"""How an answer ends that was not cut off."""

MOST = 65536
"""Tokens of one prompt or answer: far beyond the questions."""


@dataclass(frozen=True)
class Item:
    """What a service said to one question.

    ``prompt``: ids of the text, or of the chat as rendered (None: not shown); ``length``: tokens of the chat as asked;
    ``tokens``, ``logprobs`` (nats, one each, None: not told), ``text``, ``finish``: the answer; ``spelled``: its tokens
    as text; ``why``: why there is none.
    """

    id: str
    prompt: tuple[int, ...] | None = None
    length: int | None = None
    tokens: tuple[int, ...] = ()
    logprobs: tuple[float, ...] | None = None
    text: str = ""
    spelled: str | None = None
    finish: str = ""
    why: str = ""

    @property
    def whole(self) -> bool:
        """Did the answer end as an answer does?"""
        return bool(self.tokens) and self.finish in WHOLE


@dataclass(frozen=True)
class Answers:
    """``items`` by question; ``files``: sha256 of the tokenizer's files by name, as far as the folder was given;
    ``no_probabilities``: the engine's own words for telling none."""

    engine: str
    version: str
    model: str
    taken: str
    items: Mapping[str, Item]
    files: Mapping[str, str] = field(default_factory=dict)
    no_probabilities: str = ""

    def as_dict(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "questions": VERSION,
            "engine": self.engine,
            "version": self.version,
            "model": self.model,
            "taken": self.taken,
            "files": dict(self.files),
            "no_probabilities": self.no_probabilities,
            "items": [
                {name: getattr(item, name) for name in Item.__dataclass_fields__}
                for item in self.items.values()
            ],
        }


def from_dict(data: Mapping[str, Any], name: str) -> Answers:
    """Reads kept answers. Raises BadInput for what is none, or was asked with other questions."""
    if data.get("schema") != SCHEMA:
        raise BadInput(f"{name} holds no {SCHEMA}: make it with provcheck _answers ask")
    if data.get("questions") != VERSION:
        raise BadInput(
            f"{name} was asked with version {str(data.get('questions'))[:20]} of the questions, this is {VERSION}: "
            "answers to other questions cannot be compared; ask the source anew"
        )
    rows = data.get("items")
    try:
        items = [_item(row) for row in rows] if isinstance(rows, list) else []
        files = data.get("files")
        files = {str(k)[:100]: str(v)[:64] for k, v in files.items()} if isinstance(files, dict) else {}
        texts = [_short(data, key) for key in ("engine", "version", "model", "taken", "no_probabilities")]
    except (Broken, TypeError) as error:
        raise BadInput(f"{name} is damaged: {error}") from None
    known = {question.id for question in QUESTIONS}
    if [item.id for item in items if item.id not in known] or len({item.id for item in items}) != len(known):
        raise BadInput(f"{name} is damaged: it does not hold each of the {len(known)} questions once")
    engine, version, model, taken, none = texts
    return Answers(engine, version, model, taken, {item.id: item for item in items}, files, none)


def _item(row: Any) -> Item:
    if not isinstance(row, dict):
        raise TypeError("an item is no object")
    logprobs, prompt, length, spelled = (row.get(key) for key in ("logprobs", "prompt", "length", "spelled"))
    item = Item(
        id=_short(row, "id"),
        prompt=None if prompt is None else ids_of(row, "prompt"),
        length=length if isinstance(length, int) and not isinstance(length, bool) else None,
        tokens=ids_of(row, "tokens") if row.get("tokens") else (),
        logprobs=None if logprobs is None else tuple(probability(value) for value in logprobs),
        text=_short(row, "text", MOST),
        spelled=None if spelled is None else _short(row, "spelled", MOST),
        finish=_short(row, "finish"),
        why=_short(row, "why"),
    )
    if item.logprobs is not None and len(item.logprobs) != len(item.tokens):
        raise TypeError(f"{item.id}: {len(item.tokens)} tokens, {len(item.logprobs)} log-probabilities")
    return item


def _short(row: Mapping[str, Any], key: str, most: int = 1000) -> str:
    value = row.get(key, "")
    if not isinstance(value, str):
        raise TypeError(f"{key} is no text")
    return value[:most]


def ids_of(told: Mapping[str, Any], key: str) -> tuple[int, ...]:
    """Token ids, at least one. Raises Broken."""
    value = told.get(key)
    if not isinstance(value, list) or not 0 < len(value) <= MOST:
        raise Broken(f"200, and no token ids under {key!r}" if value != [] else "200, and not one token")
    if not all(isinstance(one, int) and not isinstance(one, bool) and 0 <= one <= HIGHEST for one in value):
        raise Broken(f"what is under {key!r} are no token ids")
    return tuple(value)


def text_of(told: Mapping[str, Any], key: str) -> str:
    """A text. Raises Broken."""
    value = told.get(key)
    if not isinstance(value, str):
        raise Broken(f"200, and no text under {key!r}")
    return value


def probability(value: Any) -> float:
    """A log-probability in nats: at most 0, a rounding above it allowed. Raises Broken for what cannot be one."""
    if (
        not isinstance(value, (int, float))
        or isinstance(value, bool)
        or not math.isfinite(value)
        or value > 0.01
    ):
        raise Broken(
            f"{str(value)[:40]} is no log-probability (vLLM tells others under --logprobs-mode, or a broken model)"
        )
    return min(0.0, float(value))
