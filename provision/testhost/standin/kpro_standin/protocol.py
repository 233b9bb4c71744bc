"""The two request forms of the OpenAI API, read and checked."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from .generation import Wish
from .model import Model

# What would change the answer and is not simulated: refused, since a silent default would mislead a test.
NOT_SIMULATED: dict[str, tuple[Any, ...]] = {"n": (1,), "best_of": (1,), "echo": (False,), "suffix": ("",)}

# vLLM's default limit (--max-logprobs).
MOST_LOGPROBS = 20


class BadRequest(ValueError):
    """The request is refused with ``status``."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Request:
    """``logprobs``: how many of the best are listed for each token; ``None``: no log-probabilities. ``prompt``: its
    ids; ``prompt_logprobs``: the same for these; ``token_ids``: ids are told; ``named_by_id``: a token is called by
    its id."""

    chat: bool
    model: str
    wish: Wish
    prompt_tokens: int
    stream: bool
    include_usage: bool
    logprobs: int | None
    prompt: tuple[int, ...] = ()
    prompt_logprobs: int | None = None
    token_ids: bool = False
    named_by_id: bool = False


def parse(path: str, raw: bytes, model: Model, served: str) -> Request:
    """The request in ``raw``, to ``/v1/completions`` or ``/v1/chat/completions``. Raises ``BadRequest``."""
    body = _object(raw, served)
    chat = path.endswith("/chat/completions")
    for key, allowed in NOT_SIMULATED.items():
        if body.get(key) is not None and body[key] not in allowed:
            raise BadRequest(f"{key}={body[key]!r} is not simulated by this stand-in")
    text, count = _messages(body, model) if chat else _prompt(body, model)
    room = model.max_len - count
    limit = _limit(body, chat, room)
    if limit > room:
        raise BadRequest(
            f"{count} prompt tokens and max_tokens={limit} exceed the context of {model.max_len} tokens"
        )
    seed = body.get("seed")
    wish = Wish(
        key=json.dumps([chat, text, seed]).encode(),
        max_tokens=limit,
        min_tokens=_number(body, "min_tokens", 0, 0),
        ignore_eos=_flag(body, "ignore_eos"),
        stop=_stop(body),
        context=None if chat or isinstance(text, str) else tuple(text),
    )
    options = body.get("stream_options") or {}
    if not isinstance(options, dict):
        raise BadRequest("stream_options must be an object")
    return Request(
        chat,
        served,
        wish,
        count,
        _flag(body, "stream"),
        _flag(options, "include_usage"),
        _logprobs(body, chat),
        prompt_ids(model, chat, text),
        _prompt_logprobs(body, chat),
        _flag(body, "return_token_ids"),
        _flag(body, "return_tokens_as_token_ids"),
    )


def prompt_ids(model: Model, chat: bool, text: Any) -> tuple[int, ...]:
    """The ids of a prompt (a text or ids) or of messages."""
    if chat:
        return tuple(model.render(text))
    return tuple(model.spell(text) if isinstance(text, str) else text)


def _prompt_logprobs(body: dict[str, Any], chat: bool) -> int | None:
    if body.get("prompt_logprobs") is None:
        return None
    if chat or body.get("stream"):
        raise BadRequest("prompt_logprobs are not available for a chat here, nor when `stream=True`")
    return _number(body, "prompt_logprobs", 0, 0, MOST_LOGPROBS)


def parse_tokenize(raw: bytes, model: Model, served: str) -> tuple[int, ...]:
    """The ids that ``/tokenize`` is asked for: of a ``prompt`` or of ``messages``. Raises ``BadRequest``."""
    body = _object(raw, served)
    if body.get("messages") is not None:
        return prompt_ids(model, True, _messages(body, model)[0])
    if not isinstance(body.get("prompt"), str):
        raise BadRequest("prompt must be a text")
    return tuple(model.spell(body["prompt"]))


def parse_detokenize(raw: bytes, model: Model, served: str) -> str:
    """The text of the ``tokens`` that ``/detokenize`` is given. Raises ``BadRequest``."""
    tokens = _object(raw, served).get("tokens")
    if not isinstance(tokens, list) or not all(
        type(token) is int and token in model.tokens for token in tokens
    ):
        raise BadRequest("tokens must be a list of ids of the vocabulary")
    return " ".join(model.tokens[token] for token in tokens)


def _object(raw: bytes, served: str) -> dict[str, Any]:
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        raise BadRequest("the body is not JSON") from None
    if not isinstance(body, dict):
        raise BadRequest("the body is not a JSON object")
    if body.get("model", served) != served:
        raise BadRequest(f"The model `{body['model']}` does not exist; this server has `{served}`", 404)
    return body


def _prompt(body: dict[str, Any], model: Model) -> tuple[Any, int]:
    prompt = body.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str | list):
        prompt = prompt[0]
    if isinstance(prompt, str):
        return prompt, max(1, len(model.encode(prompt)))
    if isinstance(prompt, list) and prompt and all(type(token) is int for token in prompt):
        if not all(token in model.tokens for token in prompt):
            raise BadRequest("prompt holds a token id that is not in the vocabulary")
        return prompt, len(prompt)
    raise BadRequest("prompt must be one text or one list of token ids")


def _messages(body: dict[str, Any], model: Model) -> tuple[Any, int]:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise BadRequest("messages must be a list with at least one message")
    texts = []
    for message in messages:
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise BadRequest("each message needs a role")
        texts.append([message["role"], _content(message.get("content"))])
    # The role of a message takes one token, as in real chat templates.
    return texts, sum(1 + len(model.encode(text)) for _, text in texts)


def _content(content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, list) and all(
        isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)
        for part in content
    ):
        return "\n".join(part["text"] for part in content)
    raise BadRequest("content must be a text or a list of text parts")


def _limit(body: dict[str, Any], chat: bool, room: int) -> int:
    """The most tokens to generate. Defaults as in vLLM: 16, and for chats the rest of the context."""
    key = "max_completion_tokens" if chat and body.get("max_completion_tokens") is not None else "max_tokens"
    return _number(body, key, max(1, room) if chat else 16, 1)


def _number(body: dict[str, Any], key: str, default: int, least: int, most: int | None = None) -> int:
    value = body.get(key)
    if value is None:
        return default
    if type(value) is not int or value < least or (most is not None and value > most):
        span = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise BadRequest(f"{key} must be a whole number {span}, got {value!r}")
    return value


def _flag(body: dict[str, Any], key: str) -> bool:
    value = body.get(key)
    if value is not None and not isinstance(value, bool):
        raise BadRequest(f"{key} must be true or false, got {value!r}")
    return bool(value)


def _logprobs(body: dict[str, Any], chat: bool) -> int | None:
    """A number for completions; for chats a switch, with the number in ``top_logprobs``."""
    if chat:
        return _number(body, "top_logprobs", 0, 0, MOST_LOGPROBS) if _flag(body, "logprobs") else None
    return None if body.get("logprobs") is None else _number(body, "logprobs", 0, 0, MOST_LOGPROBS)


def _stop(body: dict[str, Any]) -> tuple[str, ...]:
    stop = body.get("stop")
    stops = [stop] if isinstance(stop, str) else stop or []
    if not isinstance(stops, list) or not all(isinstance(text, str) and text for text in stops):
        raise BadRequest("stop must be a text or a list of texts")
    return tuple(stops)
