"""One request to a server, streamed, and what its answer means. Standard library only."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from checks.serving.address import Server

PROMPT = "The capital of France is"
MAX_TOKENS = 8
_BODY_LIMIT = 1 << 20
_TEXT_LIMIT = 200


class Kind(str, Enum):
    """What one try met. ``final`` kinds do not get better by waiting."""

    GENERATED = "generated"
    NOTHING_LISTENS = "nothing listens"
    NOT_READY = "not ready"
    BROKE_OFF = "broke off"
    EMPTY = "empty"
    KEY = "key"
    MODEL = "model"
    REFUSED = "refused"
    DEAD = "dead"

    @property
    def final(self) -> bool:
        return self not in (Kind.NOTHING_LISTENS, Kind.NOT_READY, Kind.BROKE_OFF)


@dataclass(frozen=True)
class Try:
    """The outcome of one request."""

    kind: Kind
    why: str
    tokens: int = 0
    text: str = ""


def attempt(target: Server, seconds: float) -> Try:
    """One request: completions, and where that path is not served, chat completions."""
    end = time.monotonic() + seconds
    prompt = {
        "model": target.model,
        "max_tokens": MAX_TOKENS,
        "temperature": 0,
        "stream": True,
        "ignore_eos": True,
    }
    first = _ask(target, "/v1/completions", {**prompt, "prompt": PROMPT}, end)
    if isinstance(first, Try):
        return first
    status, body = first
    if status in (404, 405) and (problem := _model_problem(target, end)):
        return problem
    if status in (404, 405):
        messages = [{"role": "user", "content": PROMPT}]
        second = _ask(target, "/v1/chat/completions", {**prompt, "messages": messages}, end)
        if isinstance(second, Try):
            return second
        status, body = second
    return _refusal(target, status, body, end)


def _ask(target: Server, path: str, body: Mapping[str, Any], end: float) -> Try | tuple[int, str]:
    """The stream judged, or the status and body of a refusal."""
    with Connection(target, end) as link:
        try:
            answer = link.post(path, body)
            if answer.status != 200:
                return answer.status, answer.read(_BODY_LIMIT).decode(errors="replace")
            return _judge(answer)
        except ConnectionRefusedError:
            return Try(Kind.NOTHING_LISTENS, f"nothing listens on {target.shown}")
        except (socket.gaierror, ssl.SSLCertVerificationError) as error:
            return Try(Kind.NOTHING_LISTENS, f"{target.shown} cannot be reached: {error}")
        except (OSError, http.client.HTTPException, ValueError, AttributeError) as error:
            if link.expired:
                return Try(
                    Kind.BROKE_OFF, f"{target.shown} took the request and gave no whole answer in time"
                )
            if isinstance(error, TimeoutError | OSError) and not link.connected:
                return Try(Kind.NOTHING_LISTENS, f"{target.shown} cannot be reached: {error}")
            reason = str(error) or type(error).__name__
            return Try(Kind.BROKE_OFF, f"{target.shown} broke off while it answered: {reason[:120]}")


class Connection:
    """A connection that is cut when the deadline passes, however slowly bytes drip in."""

    def __init__(self, target: Server, end: float) -> None:
        self._target = target
        left = max(0.05, end - time.monotonic())
        kind = http.client.HTTPSConnection if target.scheme == "https" else http.client.HTTPConnection
        self._http = kind(target.host, target.port, timeout=left)
        self.expired = False
        self.connected = False
        self._timer = threading.Timer(left, self._cut)
        self._timer.daemon = True

    def __enter__(self) -> Connection:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._http.close()

    def _cut(self) -> None:
        self.expired = True
        if self._http.sock is not None:
            try:
                self._http.sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                return

    def post(self, path: str, body: Mapping[str, Any]) -> http.client.HTTPResponse:
        return self._send("POST", path, json.dumps(body).encode())

    def get(self, path: str) -> http.client.HTTPResponse:
        return self._send("GET", path, None)

    def _send(self, method: str, path: str, body: bytes | None) -> http.client.HTTPResponse:
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream, application/json"}
        if self._target.key is not None:
            headers["Authorization"] = f"Bearer {self._target.key}"
        self._http.connect()
        self.connected = True
        self._http.request(method, self._target.path + path, body, headers)
        return self._http.getresponse()


def _judge(answer: http.client.HTTPResponse) -> Try:
    """Counts the pieces of text in a 200 answer, streamed or whole."""
    pieces = []
    if answer.headers.get_content_type() == "text/event-stream":
        for event in _events(answer):
            if "error" in event:
                return Try(Kind.REFUSED, f"the stream ended in an error: {_message(event)}")
            pieces.append(_text(event))
    else:
        whole = json.loads(answer.read(_BODY_LIMIT))
        if not isinstance(whole, dict):
            return Try(Kind.REFUSED, "200, and the answer is no completion")
        pieces.append(_text(whole))
    text = "".join(pieces)
    if not text:
        return Try(
            Kind.EMPTY, f"200, and no text in {len(pieces)} pieces: the server answers and generates nothing"
        )
    return Try(Kind.GENERATED, "generated", sum(bool(piece) for piece in pieces), text[:_TEXT_LIMIT])


def _events(answer: http.client.HTTPResponse) -> Iterator[dict[str, Any]]:
    size = 0
    for line in iter(lambda: answer.readline(_BODY_LIMIT), b""):
        size += len(line)
        if size > _BODY_LIMIT:
            raise ValueError("the stream is longer than a few tokens can be")
        data = line.strip()
        if not data.startswith(b"data:") or data[5:].strip() == b"[DONE]":
            continue
        event = json.loads(data[5:])
        if isinstance(event, dict):
            yield event


def _text(event: Mapping[str, Any]) -> str:
    """The text of a piece, of completions or chat; reasoning is generated text as well."""
    choices = event.get("choices")
    if not isinstance(choices, list):
        return ""
    found = ""
    for choice in choices:
        if not isinstance(choice, dict):
            continue
        message = choice.get("delta") or choice.get("message")
        places = [choice.get("text")]
        if isinstance(message, dict):
            places += [message.get(key) for key in ("content", "reasoning_content", "reasoning")]
        found += "".join(place for place in places if isinstance(place, str))
    return found


def _refusal(target: Server, status: int, body: str, end: float) -> Try:
    """What a status other than 200 means."""
    said = _message(_object(body)) or body.strip()[:120]
    if status in (401, 403):
        given = "the key was refused" if target.key is not None else "a key is needed: give --api-key-file"
        return Try(Kind.KEY, f"{status}: {given}")
    if status >= 500 or status == 429:
        return Try(Kind.NOT_READY, f"{status}, listens and is not ready: {said}")
    if status in (400, 404, 422) and (problem := _model_problem(target, end)):
        return problem
    return Try(Kind.REFUSED, f"{status}: {said or 'no reason given'}")


def _model_problem(target: Server, end: float) -> Try | None:
    """Says which models are served when ours is not among them; None when it is, or nobody knows."""
    with Connection(target, end) as link:
        try:
            answer = link.get("/v1/models")
            listing = (
                _object(answer.read(_BODY_LIMIT).decode(errors="replace")) if answer.status == 200 else {}
            )
        except (OSError, http.client.HTTPException, AttributeError):
            return None
    entries = listing.get("data")
    if not isinstance(entries, list):
        return None
    names = [str(entry.get("id"))[:100] for entry in entries if isinstance(entry, dict)]
    if target.model in names or not names:
        return None
    return Try(Kind.MODEL, f"no model {target.model!r} here; served: {', '.join(names[:20])}")


def _object(text: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def _message(event: Mapping[str, Any]) -> str:
    error = event.get("error", event.get("message", event.get("detail")))
    if isinstance(error, dict):
        error = error.get("message")
    return str(error)[:200] if error is not None else ""
