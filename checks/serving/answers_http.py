"""One question to a server and its whole answer as an object: with a deadline, bounded, and never half understood."""

from __future__ import annotations

import http.client
import socket
import ssl
import time
from collections.abc import Mapping
from typing import Any

from checks.bounded_json import BadJson, parse_object
from checks.serving.address import Server
from checks.serving.answers_errors import Broken, Refused, Unreachable
from checks.serving.stream import Connection

MAX_BODY = 32 << 20
"""Bytes: the probabilities of a prompt of some hundred tokens are far below a MiB."""


def post(target: Server, path: str, body: Mapping[str, Any], end: float) -> dict[str, Any]:
    """The object that answers ``body``; ``end`` is the deadline (monotonic seconds).

    Raises Unreachable, Broken or Refused.
    """
    return _exchange(target, path, body, end)


def get(target: Server, path: str, end: float) -> dict[str, Any]:
    """The object under a path. Raises as ``post``."""
    return _exchange(target, path, None, end)


def _exchange(target: Server, path: str, body: Mapping[str, Any] | None, end: float) -> dict[str, Any]:
    if end - time.monotonic() <= 0:
        raise Broken(f"{target.shown} answered not all questions in the time that they were given")
    with Connection(target, end) as link:
        try:
            answer = link.get(path) if body is None else link.post(path, body)
            raw = answer.read(MAX_BODY + 1)
            status = answer.status
        except ConnectionRefusedError:
            raise Unreachable(f"nothing listens on {target.shown}") from None
        except (socket.gaierror, ssl.SSLCertVerificationError) as error:
            raise Unreachable(f"{target.shown} cannot be reached: {error}") from None
        except (OSError, http.client.HTTPException, ValueError, AttributeError) as error:
            reason = str(error)[:120] or type(error).__name__
            if not link.connected and not link.expired:
                raise Unreachable(f"{target.shown} cannot be reached: {reason}") from None
            late = "gave no whole answer in time" if link.expired else f"broke off: {reason}"
            raise Broken(f"{target.shown}{path} {late}") from None
    if status == 200:
        return _object(raw, target.shown + path)
    said = _said(raw)
    if status in (401, 403):
        given = "the key was refused" if target.key is not None else "a key is needed: give --api-key-file"
        raise Unreachable(f"{target.shown}{path}: {status}, {given}")
    if status >= 500 or status == 429:
        raise Broken(f"{target.shown}{path}: {status} {said}".rstrip())
    raise Refused(status, said)


def _object(raw: bytes, what: str) -> dict[str, Any]:
    if len(raw) > MAX_BODY:
        raise Broken(f"{what}: the answer is longer than {MAX_BODY >> 20} MiB")
    try:
        return parse_object(raw, what="its answer")
    except BadJson as error:
        raise Broken(f"{what}: 200, and {error}") from None


def _said(raw: bytes) -> str:
    """The reason in the body of a refusal."""
    try:
        data = parse_object(raw, what="it")
    except BadJson:
        return raw[:200].decode("utf-8", "replace").strip()
    error = data.get("error", data.get("message", data.get("detail")))
    if isinstance(error, dict):
        error = error.get("message")
    return str(error)[:300] if error is not None else ""
