"""Tokens, answers and probabilities as an engine's API gives them (``checks.data.answer_apis`` has the sources).

vLLM and what speaks like it tell them through the OpenAI API and ``/tokenize``; SGLang through its own ``/generate``.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import Any

from checks.serving.address import Server
from checks.serving.answers_errors import Broken, Refused
from checks.serving.answers_form import HIGHEST, ids_of, probability, text_of
from checks.serving.answers_http import get, post
from checks.serving.answers_sides import Said, Scored

GREEDY: dict[str, Any] = {
    "temperature": 0,
    "repetition_penalty": 1.0,
    "presence_penalty": 0,
    "frequency_penalty": 0,
}
"""Said outright: a server adds the penalties of the model's generation_config.json to a request that names none."""


TOP = 3
"""How many of the likeliest tokens are told at each place."""


class Engine(ABC):
    """One server. ``seconds``: the longest that one question may take; ``end``: the deadline of all (monotonic)."""

    kind = "vllm"
    show_prompt = "return_token_ids"
    """What makes a chat tell the ids of its prompt."""

    def __init__(self, target: Server, end: float, seconds: float, version: str = "") -> None:
        self.target, self.end, self.seconds, self.version = target, end, seconds, version

    def ask(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        return post(self.target, path, body, min(self.end, time.monotonic() + self.seconds))

    def tokenize(self, text: str) -> tuple[int, ...]:
        """Token ids of a text, as a completion of it would have them."""
        return ids_of(self.ask("/tokenize", {"model": self.target.model, "prompt": text}), "tokens")

    def render(
        self, messages: tuple[dict[str, Any], ...], tools: tuple[dict[str, Any], ...]
    ) -> tuple[int, ...] | None:
        """Token ids of a chat as the model gets it, None where the engine has no way to show them.

        Raises Refused when the chat itself is refused, as by a model without a chat template.
        """
        chat = {"model": self.target.model, "messages": list(messages)} | (
            {"tools": list(tools)} if tools else {}
        )
        try:
            return ids_of(self.ask("/tokenize", chat), "tokens")
        except Refused:
            # An older one takes only a prompt there; the chat itself may then tell what it was made of.
            told = self.ask(
                "/v1/chat/completions", {**chat, **GREEDY, "max_tokens": 1, self.show_prompt: True}
            )
        choice = first(told)
        shown = told.get("prompt_token_ids") or choice.get("prompt_token_ids")
        return None if shown is None else ids_of({"tokens": shown}, "tokens")

    def length(self, messages: tuple[dict[str, Any], ...], tools: tuple[dict[str, Any], ...]) -> int | None:
        """How many tokens a chat has as it is really asked, None where the server does not count."""
        body = {"model": self.target.model, "messages": list(messages), **GREEDY, "max_tokens": 1}
        usage = self.ask("/v1/chat/completions", body | ({"tools": list(tools)} if tools else {})).get(
            "usage"
        )
        count = usage.get("prompt_tokens") if isinstance(usage, dict) else None
        return count if isinstance(count, int) and not isinstance(count, bool) else None

    @abstractmethod
    def detokenize(self, tokens: tuple[int, ...]) -> str | None:
        """The text of tokens, None where there is no such path."""

    @abstractmethod
    def answer(self, prompt: tuple[int, ...], most: int, *, probabilities: bool = True) -> Said:
        """At most ``most`` tokens after ``prompt``, greedy."""

    @abstractmethod
    def score(self, prompt: tuple[int, ...], answer: tuple[int, ...]) -> Scored:
        """``answer`` after ``prompt`` as this server weighs it: one pass, nothing is made of it."""


class OpenAI(Engine):
    """vLLM, and what answers as it does."""

    def detokenize(self, tokens: tuple[int, ...]) -> str | None:
        try:
            told = self.ask("/detokenize", {"model": self.target.model, "tokens": list(tokens)})
        except Refused as refused:
            if refused.status in (404, 405):
                return None
            raise
        return text_of(told, "prompt")

    def answer(self, prompt: tuple[int, ...], most: int, *, probabilities: bool = True) -> Said:
        body = {
            "model": self.target.model,
            "prompt": list(prompt),
            "max_tokens": most,
            **GREEDY,
            "return_token_ids": True,
        }
        if probabilities:
            body |= {"logprobs": 1, "return_tokens_as_token_ids": True}
        choice = first(self.ask("/v1/completions", body))
        listed = choice.get("logprobs")
        listed = listed if isinstance(listed, dict) else {}
        tokens = choice.get("token_ids")
        if tokens is None:
            tokens = [_numbered(word) for word in listed.get("tokens") or ()]
        found = ids_of({"tokens": tokens}, "tokens")
        values = listed.get("token_logprobs")
        logprobs = tuple(probability(value) for value in values) if isinstance(values, list) else None
        if logprobs is not None and len(logprobs) != len(found):
            raise Broken(f"{len(found)} tokens were answered with {len(logprobs)} log-probabilities")
        return Said(found, logprobs, text_of(choice, "text"), str(choice.get("finish_reason")))

    def score(self, prompt: tuple[int, ...], answer: tuple[int, ...]) -> Scored:
        body = {"model": self.target.model, "prompt": [*prompt, *answer], "max_tokens": 1, **GREEDY}
        choice = first(self.ask("/v1/completions", body | {"prompt_logprobs": TOP}))
        rows = choice.get("prompt_logprobs")
        if not isinstance(rows, list) or len(rows) != len(prompt) + len(answer):
            raise Broken("its answer has no log-probability for each token that it was given")
        logprobs, ranked = [], []
        for token, row in zip(answer, rows[len(prompt) :], strict=True):
            entries = {name: entry for name, entry in row.items() if isinstance(entry, dict)} if row else {}
            if str(token) not in entries:
                raise Broken(f"its answer tells no log-probability of token {token}, which it was given")
            weighed = {_numbered(name): probability(entry.get("logprob")) for name, entry in entries.items()}
            logprobs.append(weighed[token])
            ranked.append(weighed)
        return Scored(tuple(logprobs), tuple(ranked))


class SGLang(Engine):
    """SGLang by its own API: the OpenAI one tells tokens as texts only."""

    kind = "sglang"
    show_prompt = "return_prompt_token_ids"

    def detokenize(self, tokens: tuple[int, ...]) -> str | None:
        body = {"model": self.target.model, "tokens": list(tokens), "skip_special_tokens": False}
        try:
            return text_of(self.ask("/detokenize", body), "text")
        except Refused as refused:
            if refused.status in (404, 405):
                return None
            raise

    def answer(self, prompt: tuple[int, ...], most: int, *, probabilities: bool = True) -> Said:
        told = self._generate(prompt, most, {"return_logprob": True} if probabilities else {})
        meta = _object(told.get("meta_info"))
        tokens = ids_of({"tokens": told.get("output_ids")}, "tokens")
        listed = meta.get("output_token_logprobs")
        logprobs = None
        if probabilities and isinstance(listed, list):
            pairs = [_pair(row) for row in listed]
            if tuple(token for token, _ in pairs) != tokens:
                raise Broken("the log-probabilities of its answer are not those of its tokens")
            logprobs = tuple(probability(value) for _, value in pairs)
        finish = meta.get("finish_reason")
        kind = finish.get("type") if isinstance(finish, dict) else finish
        return Said(tokens, logprobs, text_of(told, "text"), str(kind))

    def score(self, prompt: tuple[int, ...], answer: tuple[int, ...]) -> Scored:
        wanted = {
            "return_logprob": True,
            "logprob_start_len": max(0, len(prompt) - 1),
            "top_logprobs_num": TOP,
        }
        meta = _object(self._generate((*prompt, *answer), 1, wanted).get("meta_info"))
        listed, tops = meta.get("input_token_logprobs"), meta.get("input_top_logprobs")
        if not isinstance(listed, list) or len(listed) < len(answer):
            raise Broken("its answer has no log-probability for each token that it was given")
        pairs = [_pair(row) for row in listed[-len(answer) :]]
        # It writes 0 for the id of the last word of a vocabulary; what it was given is known.
        if any(token not in (given, 0) for (token, _), given in zip(pairs, answer, strict=True)):
            raise Broken("the log-probabilities of its answer are not those of the tokens that it was given")
        logprobs = tuple(probability(value) for _, value in pairs)
        rows = tops[-len(answer) :] if isinstance(tops, list) else []
        if len(rows) != len(answer):
            raise Broken("its answer does not tell the likeliest tokens, which it was asked for")
        ranked = [
            {token: value}
            | {one: probability(its) for one, its in map(_pair, row if isinstance(row, list) else ())}
            for token, value, row in zip(answer, logprobs, rows, strict=True)
        ]
        return Scored(logprobs, tuple(ranked))

    def _generate(self, prompt: tuple[int, ...], most: int, more: dict[str, Any]) -> dict[str, Any]:
        sampling = {**GREEDY, "max_new_tokens": most}
        return self.ask("/generate", {"input_ids": list(prompt), "sampling_params": sampling, **more})


def engine_at(target: Server, end: float, seconds: float) -> Engine:
    """The server's own kind. Raises Unreachable; Broken when it listens and answers no question about itself."""
    for path in ("/get_model_info", "/model_info"):
        try:
            if "model_path" in get(target, path, min(end, time.monotonic() + seconds)):
                return SGLang(target, end, seconds)
        except Refused:
            continue
    try:
        version = get(target, "/version", min(end, time.monotonic() + seconds)).get("version")
    except Refused:
        version = ""
    return OpenAI(target, end, seconds, str(version or "")[:60])


def first(told: dict[str, Any]) -> dict[str, Any]:
    """The one choice of an answer. Raises Broken."""
    choices = told.get("choices")
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict):
        raise Broken("200, and the answer holds no choice")
    return choices[0]


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _numbered(word: Any) -> int:
    """The id in ``token_id:17`` or ``17``. Raises Broken."""
    digits = str(word).removeprefix("token_id:")
    if not digits.isdecimal() or len(digits) > len(str(HIGHEST)):
        raise Broken(f"it names the token {str(word)[:40]!r} by no number")
    return int(digits)


def _pair(row: Any) -> tuple[int, Any]:
    if not isinstance(row, list) or len(row) < 2 or not isinstance(row[1], int):
        raise Broken("its list of log-probabilities has another form than [value, token, text]")
    return row[1], row[0]
