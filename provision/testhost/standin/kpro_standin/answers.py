"""What is sent back: whole answers, streamed pieces, errors, in the forms of the OpenAI API."""

from __future__ import annotations

import time
import uuid
from typing import Any

from . import logprobs
from .generation import Token
from .model import Model
from .protocol import Request


class Answer:
    """One answer in the making. It counts the tokens that it was given: the usage is what was really sent."""

    def __init__(self, request: Request, model: Model) -> None:
        self._request = request
        self._model = model
        self._ident = ("chatcmpl-" if request.chat else "cmpl-") + uuid.uuid4().hex
        self._created = int(time.time())
        self._made: list[int] = []
        self._characters = 0

    def whole(self, tokens: tuple[Token, ...], finish: str) -> dict[str, Any]:
        """The answer in one object."""
        text = "".join(token.text for token in tokens)
        content: dict[str, Any] = {"text": text}
        if self._request.chat:
            content = {"message": {"role": "assistant", "content": text}}
        choice = self._choice(content, tokens, finish)
        kind = "chat.completion" if self._request.chat else "text_completion"
        told: dict[str, Any] = {}
        if self._request.token_ids:
            (told if self._request.chat else choice)["prompt_token_ids"] = list(self._request.prompt)
        if self._request.prompt_logprobs is not None:
            choice["prompt_logprobs"] = logprobs.for_prompt(
                self._model, self._request.prompt, self._request.prompt_logprobs
            )
        return {**self._frame(kind), "choices": [choice], "usage": self._usage(), **told}

    def opening(self) -> dict[str, Any] | None:
        """The first piece of a chat, which names the role; completions have none."""
        if not self._request.chat:
            return None
        return self._piece(self._choice({"delta": {"role": "assistant", "content": ""}}, (), None))

    def piece(self, tokens: tuple[Token, ...], finish: str | None) -> dict[str, Any]:
        """One streamed piece; ``finish`` with the last."""
        text = "".join(token.text for token in tokens)
        content: dict[str, Any] = {"delta": {"content": text}} if self._request.chat else {"text": text}
        return self._piece(self._choice(content, tokens, finish))

    def closing(self) -> dict[str, Any]:
        """The piece after the last under ``stream_options.include_usage``: no choice, only the usage."""
        return {**self._piece(), "usage": self._usage()}

    def _piece(self, *choices: dict[str, Any]) -> dict[str, Any]:
        kind = "chat.completion.chunk" if self._request.chat else "text_completion"
        return {**self._frame(kind), "choices": list(choices)}

    def _choice(
        self, content: dict[str, Any], tokens: tuple[Token, ...], finish: str | None
    ) -> dict[str, Any]:
        listed = None
        if self._request.logprobs is not None and tokens:
            scored = logprobs.score(self._model, self._request, tokens, self._made)
            form = logprobs.for_chat if self._request.chat else logprobs.for_completion
            listed = form(scored, self._characters)
        self._made += [token.id for token in tokens]
        self._characters += sum(len(token.text) for token in tokens)
        ids = {"token_ids": [token.id for token in tokens]} if self._request.token_ids else {}
        return {"index": 0, **content, "logprobs": listed, "finish_reason": finish, **ids}

    def _frame(self, kind: str) -> dict[str, Any]:
        return {"id": self._ident, "object": kind, "created": self._created, "model": self._request.model}

    def _usage(self) -> dict[str, int]:
        prompt = self._request.prompt_tokens
        return {
            "prompt_tokens": prompt,
            "completion_tokens": len(self._made),
            "total_tokens": prompt + len(self._made),
        }


def error(status: int, message: str) -> dict[str, Any]:
    """An error in the form that clients of the OpenAI API read."""
    kinds = {400: "BadRequestError", 401: "Unauthorized", 404: "NotFoundError"}
    kind = kinds.get(status, "InternalServerError" if status >= 500 else "BadRequestError")
    return {"error": {"message": message, "type": kind, "param": None, "code": status}}
