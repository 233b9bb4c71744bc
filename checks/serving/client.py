"""Talks to an OpenAI-compatible server: reads pages, streams answers and times them. Standard library only.

The key goes into a header and nowhere else. Every read has a size limit and a deadline.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from checks.serving.address import Server

MAX_PAGE = 8 << 20
MAX_STREAM = 4 << 20


class NoAnswer(Exception):
    """The server gave no usable answer; the text says what it did."""


@dataclass
class Answer:
    """One streamed answer. ``seconds`` from the first to the last piece; ``ttft`` to the first, both seconds.

    ``tokens`` is the server's own count, None when it gave none; ``spec`` SGLang's statistics of the request.
    """

    content: str = ""
    reasoning: str = ""
    tokens: int | None = None
    prompt_tokens: int | None = None
    ttft: float = 0.0
    seconds: float = 0.0
    finish: str | None = None
    spec: dict[str, Any] = field(default_factory=dict)


class Client:
    """Requests to one server, each on a connection of its own."""

    def __init__(self, server: Server) -> None:
        self.server = server

    def page(self, path: str, seconds: float = 10.0) -> str | None:
        """The text under a path, None when the server has none. Raises NoAnswer when it cannot be asked."""
        try:
            with self._send("GET", path, None, seconds) as answer:
                body = answer.read(MAX_PAGE + 1)
        except (OSError, http.client.HTTPException) as error:
            raise NoAnswer(f"{self.server.shown}{path}: {error or type(error).__name__}") from None
        if answer.status != 200:
            return None
        return body.decode("utf-8", "replace")

    def object(self, path: str) -> dict[str, Any]:
        """A JSON object under a path; empty when there is none."""
        try:
            data = json.loads(self.page(path) or "{}")
        except (NoAnswer, ValueError, RecursionError):
            return {}
        return data if isinstance(data, dict) else {}

    def chat(
        self, prompt: str, max_tokens: int, thinking: bool, seconds: float, *, sglang: bool = False
    ) -> Answer:
        """One greedy streamed answer; a model without a chat template is asked as plain completion.

        Raises NoAnswer when the server refuses, breaks off or exceeds ``seconds``.
        """
        common: dict[str, Any] = {
            "model": self.server.model,
            "max_tokens": max_tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if sglang:
            common["return_meta_info"] = True
        chat = {
            **common,
            "messages": [{"role": "user", "content": prompt}],
            "chat_template_kwargs": {"enable_thinking": thinking},
        }
        try:
            return self._stream("/v1/chat/completions", chat, seconds)
        except _Refused as refused:
            if refused.status not in (400, 404, 405, 422):
                raise NoAnswer(str(refused)) from None
        try:
            return self._stream("/v1/completions", {**common, "prompt": prompt}, seconds)
        except _Refused as refused:
            raise NoAnswer(str(refused)) from None

    def _stream(self, path: str, body: dict[str, Any], seconds: float) -> Answer:
        began = time.monotonic()
        found = Answer()
        first = last = 0.0
        try:
            with self._send("POST", path, json.dumps(body).encode(), seconds) as answer:
                if answer.status != 200:
                    said = answer.read(2000).decode("utf-8", "replace").strip()
                    raise _Refused(answer.status, f"{path}: {answer.status} {said[:200]}")
                for event in _events(answer, began + seconds):
                    if _take(found, event):
                        last = time.monotonic()
                        first = first or last
        except (OSError, http.client.HTTPException, ValueError, RecursionError) as error:
            raise NoAnswer(
                f"{self.server.shown}{path} broke off: {str(error)[:200] or type(error).__name__}"
            ) from None
        found.ttft, found.seconds = max(0.0, first - began) if first else 0.0, last - first
        return found

    @contextmanager
    def _send(
        self, method: str, path: str, body: bytes | None, seconds: float
    ) -> Iterator[http.client.HTTPResponse]:
        kind = http.client.HTTPSConnection if self.server.scheme == "https" else http.client.HTTPConnection
        link = kind(self.server.host, self.server.port, timeout=seconds)
        headers = {"Content-Type": "application/json", "Connection": "close"}
        if self.server.key is not None:
            headers["Authorization"] = f"Bearer {self.server.key}"
        try:
            link.request(method, self.server.path + path, body, headers)
            with link.getresponse() as answer:
                yield answer
        finally:
            link.close()


class _Refused(Exception):
    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def _events(answer: http.client.HTTPResponse, end: float) -> Iterator[dict[str, Any]]:
    size = 0
    while line := answer.readline(MAX_PAGE):
        size += len(line)
        if size > MAX_STREAM or time.monotonic() > end:
            raise ValueError("the answer is longer, or takes longer, than asked for")
        data = line.strip()
        if not data.startswith(b"data:") or data[5:].strip() == b"[DONE]":
            continue
        event = json.loads(data[5:])
        if isinstance(event, dict):
            if "error" in event:
                raise ValueError(f"the stream ended in an error: {str(event['error'])[:200]}")
            yield event


def _take(found: Answer, event: dict[str, Any]) -> bool:
    """Adds one piece; True when it carried text."""
    usage = event.get("usage")
    if isinstance(usage, dict):
        found.tokens = _count(usage.get("completion_tokens"), found.tokens)
        found.prompt_tokens = _count(usage.get("prompt_tokens"), found.prompt_tokens)
    meta = event.get("meta_info")
    text = False
    for choice in event.get("choices") or []:
        if not isinstance(choice, dict):
            continue
        piece = choice.get("delta") or choice.get("message") or {}
        content = choice.get("text") or (piece.get("content") if isinstance(piece, dict) else None)
        thought = (
            (piece.get("reasoning_content") or piece.get("reasoning")) if isinstance(piece, dict) else None
        )
        if isinstance(content, str) and content:
            found.content, text = found.content + content, True
        if isinstance(thought, str) and thought:
            found.reasoning, text = found.reasoning + thought, True
        if isinstance(choice.get("finish_reason"), str):
            found.finish = choice["finish_reason"]
        meta = choice.get("meta_info") or meta
    if isinstance(meta, dict):
        found.spec = meta
    return text


def _count(value: Any, other: int | None) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else other
