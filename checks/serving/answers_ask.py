"""Puts the fixed questions to a server, and kept answers before another one. What it meets it keeps; it judges nothing.

An answer is asked for by token ids, so that two servers are asked the very same thing whatever their tokenizers do.
"""

from __future__ import annotations

import datetime
import hashlib
import time
from collections.abc import Callable
from pathlib import Path

from checks.data.answer_apis import TOKENIZER_FILES
from checks.data.questions import MAX_TOKENS, QUESTIONS, Question
from checks.errors import BadInput
from checks.serving.address import Server
from checks.serving.answers_api import Engine, engine_at
from checks.serving.answers_errors import Broken, Refused, Unreachable
from checks.serving.answers_form import Answers, Item
from checks.serving.answers_sides import BROKE, Held, Met, Said, Scored

EACH_S = 60.0
"""Seconds for one question."""

FORCED_EVERY = 6
"""Where no probabilities are told, the token after each so many of an answer is asked for instead."""


def ask(
    target: Server,
    seconds: float,
    folder: Path | None = None,
    progress: Callable[[str], None] = lambda text: None,
) -> tuple[Answers, Met]:
    """All questions, at most ``seconds`` in all; ``folder``: of the model's tokenizer. Raises BadInput for that."""
    files = digests(folder)
    end, met, found = time.monotonic() + seconds, Met(), dict[str, Item]()
    none: list[str] = []
    taken = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    kind = version = ""
    try:
        engine = engine_at(target, end, EACH_S)
        kind, version = engine.kind, engine.version
        failed = 0
        for question in QUESTIONS:
            progress(f"{question.id}: {len(found) + 1} of {len(QUESTIONS)}")
            item = _one(engine, question, none)
            found[question.id] = item
            failed = failed + 1 if item.why.startswith(BROKE) else 0
            if met.over(failed, item.why.removeprefix(BROKE), time.monotonic() >= end):
                break
    except Unreachable as error:
        met.down = str(error)
    except Broken as error:
        met.stopped = str(error)
    items = {one.id: found.get(one.id, Item(one.id, why=f"{BROKE}not asked any more")) for one in QUESTIONS}
    return Answers(kind, version, target.model, taken, items, files, none[0] if none else ""), met


def _one(engine: Engine, question: Question, none: list[str]) -> Item:
    """One question put. ``none`` gets the words of an engine that tells no probabilities."""
    length: int | None = None
    try:
        if question.chat:
            length = _length(engine, question)
        prompt = prompt_of(engine, question)
        if prompt is None:
            return Item(question.id, length=length, why="the engine shows no rendered chat")
        said = _answer(engine, prompt, none)
        spelled = engine.detokenize(said.tokens)
    except Refused as refused:
        return Item(question.id, length=length, why=f"refused: {refused}")
    except Broken as error:
        return Item(question.id, length=length, why=f"{BROKE}{error}")
    return Item(question.id, prompt, length, said.tokens, said.logprobs, said.text, spelled, said.finish)


def _answer(engine: Engine, prompt: tuple[int, ...], none: list[str]) -> Said:
    if not none:
        try:
            return engine.answer(prompt, MAX_TOKENS)
        except Refused as refused:
            why = str(refused)
        # It may not take the question at all; then this try says so.
        said = engine.answer(prompt, MAX_TOKENS, probabilities=False)
        none.append(why)
        return said
    return engine.answer(prompt, MAX_TOKENS, probabilities=False)


def prompt_of(engine: Engine, question: Question) -> tuple[int, ...] | None:
    """Token ids of a question as the model gets them; None where the engine does not show those of a chat.

    Raises Refused, Broken, Unreachable.
    """
    if question.text is not None:
        return engine.tokenize(question.text)
    return engine.render(question.messages, question.tools)


def _length(engine: Engine, question: Question) -> int | None:
    """Tools are refused by a server that parses none, which says nothing about the template."""
    try:
        return engine.length(question.messages, question.tools)
    except Refused:
        return None


def hold(
    target: Server,
    answers: Answers,
    seconds: float,
    progress: Callable[[str], None] = lambda text: None,
) -> tuple[str, dict[str, Held], Met]:
    """The kept answers under another server, at most ``seconds`` in all: its kind, what it did with each, how it went.

    Each is weighed in one pass, and the question is put to it as well: how an engine weighs a text does not show how it
    makes one.
    """
    end, met, found, kind = time.monotonic() + seconds, Met(), dict[str, Held](), ""
    try:
        engine = engine_at(target, end, EACH_S)
        kind, failed = engine.kind, 0
        for question in QUESTIONS:
            progress(f"{question.id}: {len(found) + 1} of {len(QUESTIONS)}")
            held = _held(engine, question, answers.items[question.id], met)
            found[question.id] = held
            failed = failed + 1 if held.trouble else 0
            if met.over(failed, held.trouble, time.monotonic() >= end):
                break
    except Unreachable as error:
        met.down = str(error)
    except Broken as error:
        met.stopped = str(error)
    return kind, found, met


def _held(engine: Engine, question: Question, item: Item, met: Met) -> Held:
    prompt: tuple[int, ...] | None = None
    length: int | None = None
    refused = ""
    if item.why.startswith(BROKE):
        return Held(item.id)
    try:
        if question.chat:
            length = _length(engine, question)
        try:
            prompt = prompt_of(engine, question)
        except Refused as no:
            refused = str(no)
        if item.prompt is None or not item.tokens:
            return Held(item.id, prompt, length, refused=refused)
        spelled = engine.detokenize(item.tokens)
        scored, forced = _weigh(engine, item, met)
        said = engine.answer(item.prompt, MAX_TOKENS, probabilities=False)
    except (Broken, Refused) as error:
        return Held(item.id, prompt, length, refused=refused, trouble=str(error))
    return Held(item.id, prompt, length, spelled, scored, said, forced, refused)


def _weigh(engine: Engine, item: Item, met: Met) -> tuple[Scored | None, dict[int, int]]:
    """Probabilities of the answer; where the engine refuses them while it takes the question, what it says at some
    places of the answer instead."""
    assert item.prompt is not None
    if not met.no_probabilities:
        try:
            return engine.score(item.prompt, item.tokens), {}
        except Refused as refused:
            why = str(refused)
        # It may not take these tokens at all; then this try says so.
        engine.answer((*item.prompt, *item.tokens), 1, probabilities=False)
        met.no_probabilities = why
    places = range(0, len(item.tokens), FORCED_EVERY)
    return None, {
        place: engine.answer((*item.prompt, *item.tokens[:place]), 1, probabilities=False).tokens[0]
        for place in places
    }


def digests(folder: Path | None) -> dict[str, str]:
    """sha256 of the tokenizer's files in a model's folder. Raises BadInput when it holds none."""
    if folder is None:
        return {}
    found = {}
    for name in TOKENIZER_FILES:
        try:
            found[name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        except FileNotFoundError:
            continue
        except OSError as error:
            raise BadInput(f"cannot read {folder / name}: {error.strerror}") from None
    if not found:
        raise BadInput(f"{folder} holds no tokenizer: none of {', '.join(TOKENIZER_FILES[:4])} … is there")
    return found
