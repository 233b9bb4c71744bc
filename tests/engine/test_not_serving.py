"""Servers whose /health is 200 and whose answers are empty, garbage or no answers at all are never green."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from provision.testhost.model import make_model
from provision.testhost.process import running
from tests.engine.rig import Engine, provcheck, status

Answer = Callable[[str], bytes]


def events(*pieces: str) -> bytes:
    """A streamed chat answer made of these pieces, as vLLM frames it."""
    told: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}]} for piece in pieces
    ]
    told.append({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": len(pieces)}})
    return b"".join(b"data: " + json.dumps(item).encode() + b"\n\n" for item in told) + b"data: [DONE]\n\n"


@contextmanager
def server(answer: Answer) -> Iterator[str]:
    """Answers every request with 200 and the bytes that ``answer`` gives for its path."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            body = answer(self.path)
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            if body.startswith(b"data:"):
                self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, *words: object) -> None:
            pass

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=listening.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.server_port}"
    finally:
        listening.shutdown()
        listening.server_close()
        thread.join()


def speaking(chat: bytes) -> Answer:
    """A server with vLLM's face: a model, a metrics page, and ``chat`` as every answer."""

    def answer(path: str) -> bytes:
        if path == "/v1/models":
            return b'{"object": "list", "data": [{"id": "tiny"}]}'
        if path == "/version":
            return b'{"version": "0.32.0"}'
        if path == "/metrics":
            return b'vllm:generation_tokens_total{engine="0",model_name="tiny"} 5.0\n'
        return chat if path.startswith("/v1/") else b""

    return answer


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x00\xff\xfe garbage \x80" * 40,
        b"<html><body>It works!</body></html>",
        b'{"ok": true}',
        b"[[[[",
        b"null",
    ],
    ids=["nothing", "bytes", "html", "json", "broken", "null"],
)
def test_a_server_that_answers_everything_with_200_and_garbage_is_never_green(body: bytes) -> None:
    with server(lambda path: body) as url:
        assert status(url, "/health") == 200
        ran = provcheck("serve", url, "--wait", "2", "--seconds", "20", "--diagnose")
    assert ran.code in (1, 3), ran
    assert ran.verdict in ("fail", "unknown")
    assert ran.status("serve.ready") in ("fail", "unknown")
    assert "Traceback" not in ran.said


@pytest.mark.parametrize(
    ("chat", "told"),
    [
        (events(*["\ufffd\ufffd\u0003\ufffd"] * 30), "unreadable"),
        (events(*[" the"] * 60), "repeat one word"),
    ],
    ids=["unreadable", "one word"],
)
def test_streamed_garbage_behind_healthy_counters_is_called_garbage(chat: bytes, told: str) -> None:
    with server(speaking(chat)) as url:
        assert status(url, "/health") == 200
        ran = provcheck("serve", url, "--wait", "2", "--seconds", "20")
    assert (ran.code, ran.status("serve.output")) == (1, "fail"), ran.statuses()
    assert told in ran.finding("serve.output")["message"]


def test_the_same_server_with_words_to_say_is_not_called_garbage() -> None:
    text = "a small town wakes while gulls cry above cold quays and ropes creak in wind"
    words = [f" {word}" for word in text.split(" ")]
    with server(speaking(events(*words))) as url:
        ran = provcheck("serve", url, "--wait", "2", "--seconds", "20")
    assert ran.status("serve.output") == "pass"


@pytest.mark.parametrize(
    ("fault", "told"), [("empty", "serve.ready"), ("health-only", "serve.ready"), ("garbage", "serve.output")]
)
def test_an_engine_that_is_healthy_and_says_nothing_fails(fault: str, told: str, tmp_path: Path) -> None:
    make_model(tmp_path / "tiny")
    with running(
        tmp_path / "tiny", "--served-model-name", "tiny", "--tok-s", "3000", "--fault", fault
    ) as engine:
        assert status(engine.url, "/health") == 200
        ran = provcheck("serve", engine.url, "--wait", "2", "--seconds", "20", "--diagnose")
    assert (ran.code, ran.verdict, ran.status(told)) == (1, "fail", "fail"), ran.statuses()


def test_a_port_where_nobody_answers_could_not_be_checked() -> None:
    with server(lambda path: b"") as url:
        pass
    ran = provcheck("serve", url, "--wait", "1")
    assert (ran.code, ran.verdict) == (3, "unknown")


def test_a_passive_look_at_a_page_that_is_no_engines_proves_nothing(engines: dict[str, Engine]) -> None:
    with server(lambda path: b"python_info 1.0\n") as url:
        ran = provcheck("serve", url, "--passive")
    assert ran.code == 3
    assert provcheck("serve", engines["plain"].url, "--passive").code == 0
