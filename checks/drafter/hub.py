"""Fetches the configs of published relatives by plain HTTP, a few kilobytes each.

``HF_ENDPOINT`` says where (default https://huggingface.co), ``HF_TOKEN`` goes into a header for that host
only: it is never in arguments, messages or records, and a redirect to another host does not get it.
"""

from __future__ import annotations

import os
import time
import urllib.error
import urllib.request
from collections.abc import Iterable
from http.client import HTTPMessage
from typing import IO
from urllib.parse import quote, urlsplit

from checks.bounded_json import BadJson, parse_object
from checks.drafter.config import ModelConfig, parse
from checks.errors import BadInput

DEFAULT_ENDPOINT = "https://huggingface.co"
MAX_BYTES = 2**20
TIMEOUT = 5.0
DEADLINE = 30.0
"""Seconds per answer and for all of them together."""


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects over HTTP only, and takes the token off when the host changes."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        if urlsplit(newurl).scheme not in {"http", "https"}:
            raise urllib.error.URLError("redirect to something that is not HTTP")
        new = super().redirect_request(req, fp, code, msg, headers, newurl)
        before, after = urlsplit(req.full_url), urlsplit(newurl)
        if new is not None and (before.scheme, before.netloc) != (after.scheme, after.netloc):
            new.headers.pop("Authorization", None)
            new.unredirected_hdrs.pop("Authorization", None)
        return new


def fetch(repos: Iterable[str]) -> tuple[list[tuple[str, ModelConfig]], list[str]]:
    """The configs that could be had, and for the others one reason each.

    Raises BadInput for a bad HF_ENDPOINT.
    """
    endpoint = os.environ.get("HF_ENDPOINT", DEFAULT_ENDPOINT).rstrip("/")
    parts = urlsplit(endpoint)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username or parts.password:
        raise BadInput("HF_ENDPOINT is no address like https://huggingface.co (no user or password in it)")
    opener = urllib.request.build_opener(_Redirects)
    found: list[tuple[str, ModelConfig]] = []
    failed: list[str] = []
    end = time.monotonic() + DEADLINE
    for repo in repos:
        if time.monotonic() > end:
            failed.append(f"{repo}: no time left")
            continue
        try:
            found.append(
                (repo, parse(_get(opener, f"{endpoint}/{quote(repo)}/resolve/main/config.json", repo)))
            )
        except urllib.error.HTTPError as error:
            failed.append(f"{repo}: {_http_reason(error.code)}")
        except (urllib.error.URLError, OSError, ValueError) as error:
            failed.append(f"{repo}: {_reason(error)}")
    return found, failed


def _get(opener: urllib.request.OpenerDirector, url: str, repo: str) -> dict[str, object]:
    request = urllib.request.Request(url, headers={"User-Agent": "provcheck"})
    token = os.environ.get("HF_TOKEN", "").strip()
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    raw, end = b"", time.monotonic() + TIMEOUT
    with opener.open(request, timeout=TIMEOUT) as answer:
        # One read each, so that a server which sends a byte now and then does not hold us for hours.
        while part := answer.read1(2**16):
            raw += part
            if len(raw) > MAX_BYTES:
                raise BadJson(f"config.json of {repo} is larger than {MAX_BYTES} bytes")
            if time.monotonic() > end:
                raise TimeoutError
    return parse_object(raw, what=f"config.json of {repo}")


def _http_reason(code: int) -> str:
    if code in {401, 403}:
        return f"HTTP {code}: gated; accept its terms and set HF_TOKEN"
    return f"HTTP {code}"


def _reason(error: Exception) -> str:
    """The reason without addresses or headers, whatever the library put into its text."""
    if isinstance(error, BadJson):
        return str(error)
    inner = error.reason if isinstance(error, urllib.error.URLError) else error
    return "no answer" if isinstance(inner, TimeoutError) else type(inner).__name__
