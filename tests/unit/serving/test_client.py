"""The client's bounds: an answer that never ends is ended, a refusal is said."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from checks.serving import client as clients
from checks.serving.address import server as address
from checks.serving.client import Client, NoAnswer


@contextmanager
def _server(status: int, body: bytes, times: int = 1) -> Iterator[Client]:
    """Answers every POST with ``body``, ``times`` over."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            return

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            try:
                for _ in range(times):
                    self.wfile.write(body)
            except OSError:
                return

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield Client(address(f"http://127.0.0.1:{httpd.server_address[1]}", "m"))
    finally:
        httpd.shutdown()
        httpd.server_close()
        thread.join()


PIECE = b"data: " + json.dumps({"choices": [{"delta": {"content": "word " * 200}}]}).encode() + b"\n\n"


def test_an_answer_that_never_ends_is_ended_at_the_size_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "MAX_STREAM", 100_000)
    with _server(200, PIECE, times=50) as client:
        assert client.chat("x", 8, False, 20.0).content.startswith("word")
    with _server(200, PIECE, times=400) as client, pytest.raises(NoAnswer, match="longer"):
        client.chat("x", 8, False, 20.0)


def test_an_answer_that_outlives_its_deadline_is_ended() -> None:
    with _server(200, PIECE, times=200) as client, pytest.raises(NoAnswer, match="broke off"):
        client.chat("x", 8, False, 0.001)


def test_an_error_inside_the_stream_is_no_answer() -> None:
    body = PIECE + b'data: {"error": {"message": "engine dead"}}\n\n'
    with _server(200, body) as client, pytest.raises(NoAnswer, match="engine dead"):
        client.chat("x", 8, False, 20.0)


def test_a_refusal_of_both_ways_is_said_with_its_status() -> None:
    with _server(404, b"no such model") as client, pytest.raises(NoAnswer, match="404 no such model"):
        client.chat("x", 8, False, 20.0)
    with _server(500, b"EngineDeadError") as client, pytest.raises(NoAnswer, match="chat/completions: 500"):
        client.chat("x", 8, False, 20.0)


def test_a_stream_that_is_no_json_is_no_answer() -> None:
    with _server(200, b"data: {oops\n\n") as client, pytest.raises(NoAnswer):
        client.chat("x", 8, False, 20.0)
