"""The two request forms of the OpenAI API, checked, and the answers to them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from .generation import Plan, Wish
from .model import Model

# What would change the answer and is not simulated: refused, since a silent default would mislead a test.
NOT_SIMULATED: dict[str, tuple[Any, ...]] = {"n": (1,), "best_of": (1,), "echo": (False,), "suffix": ("",)}


class BadRequest(ValueError):
    """The request is refused with ``status``."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Request:
    chat: bool
    model: str
    wish: Wish
    prompt_tokens: int
    stream: bool
    include_usage: bool


def parse(path: str, raw: bytes, model: Model, served: str) -> Request:
    """The request in ``raw``, to ``/v1/completions`` or ``/v1/chat/completions``. Raises ``BadRequest``."""
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        raise BadRequest("the body is not JSON") from None
    if not isinstance(body, dict):
        raise BadRequest("the body is not a JSON object")
    chat = path.endswith("/chat/completions")
    if body.get("model", served) != served:
        raise BadRequest(f"The model `{body['model']}` does not exist; this server has `{served}`", 404)
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
    )
    options = body.get("stream_options") or {}
    if not isinstance(options, dict):
        raise BadRequest("stream_options must be an object")
    return Request(chat, served, wish, count, _flag(body, "stream"), _flag(options, "include_usage"))


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


def _number(body: dict[str, Any], key: str, default: int, least: int) -> int:
    value = body.get(key)
    if value is None:
        return default
    if type(value) is not int or value < least:
        raise BadRequest(f"{key} must be a whole number of at least {least}, got {value!r}")
    return value


def _flag(body: dict[str, Any], key: str) -> bool:
    value = body.get(key)
    if value is not None and not isinstance(value, bool):
        raise BadRequest(f"{key} must be true or false, got {value!r}")
    return bool(value)


def _stop(body: dict[str, Any]) -> tuple[str, ...]:
    stop = body.get("stop")
    stops = [stop] if isinstance(stop, str) else stop or []
    if not isinstance(stops, list) or not all(isinstance(text, str) and text for text in stops):
        raise BadRequest("stop must be a text or a list of texts")
    return tuple(stops)


def answer(request: Request, plan: Plan, ident: str, created: int) -> dict[str, Any]:
    """The whole answer in one object."""
    text = "".join(token.text for token in plan.tokens)
    content: dict[str, Any] = (
        {"message": {"role": "assistant", "content": text}} if request.chat else {"text": text}
    )
    choice = {"index": 0, **content, "logprobs": None, "finish_reason": plan.finish}
    kind = "chat.completion" if request.chat else "text_completion"
    return {
        **_frame(request, ident, created, kind),
        "choices": [choice],
        "usage": usage(request, len(plan.tokens)),
    }


def chunk(request: Request, text: str, finish: str | None, ident: str, created: int) -> dict[str, Any]:
    """One streamed piece."""
    content: dict[str, Any] = {"delta": {"content": text}} if request.chat else {"text": text}
    kind = "chat.completion.chunk" if request.chat else "text_completion"
    choice = {"index": 0, **content, "logprobs": None, "finish_reason": finish}
    return {**_frame(request, ident, created, kind), "choices": [choice]}


def opening(request: Request, ident: str, created: int) -> dict[str, Any] | None:
    """The first chunk of a chat, which names the role; completions have none."""
    if not request.chat:
        return None
    first = chunk(request, "", None, ident, created)
    first["choices"][0]["delta"] = {"role": "assistant", "content": ""}
    return first


def closing(request: Request, tokens: int, ident: str, created: int) -> dict[str, Any]:
    """The last chunk under ``stream_options.include_usage``: no choice, only the usage."""
    kind = "chat.completion.chunk" if request.chat else "text_completion"
    return {**_frame(request, ident, created, kind), "choices": [], "usage": usage(request, tokens)}


def usage(request: Request, tokens: int) -> dict[str, int]:
    return {
        "prompt_tokens": request.prompt_tokens,
        "completion_tokens": tokens,
        "total_tokens": request.prompt_tokens + tokens,
    }


def error(status: int, message: str) -> dict[str, Any]:
    """An error in the form that clients of the OpenAI API read."""
    kinds = {400: "BadRequestError", 401: "Unauthorized", 404: "NotFoundError"}
    kind = kinds.get(status, "InternalServerError" if status >= 500 else "BadRequestError")
    return {"error": {"message": message, "type": kind, "param": None, "code": status}}


def _frame(request: Request, ident: str, created: int, kind: str) -> dict[str, Any]:
    return {"id": ident, "object": kind, "created": created, "model": request.model}
