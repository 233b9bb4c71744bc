"""``_generate`` against servers that generate, and against every other kind."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from checks.errors import BadInput
from checks.serving import generate
from checks.serving.address import server
from checks.serving.stream import Kind, attempt

COMPLETIONS, CHAT, MODELS = (
    ("POST", "/v1/completions"),
    ("POST", "/v1/chat/completions"),
    ("GET", "/v1/models"),
)
KEY = "sk-not-for-anyone"
Handler = BaseHTTPRequestHandler
Serve = Callable[..., str]


def whole(status: int, body: object, kind: str = "application/json") -> Callable[[Handler], None]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()

    def answer(handler: Handler) -> None:
        handler.send_response(status)
        handler.send_header("Content-Type", kind)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    return answer


def events(*pieces: object) -> Callable[[Handler], None]:
    lines = b"".join(b"data: " + json.dumps(piece).encode() + b"\n\n" for piece in pieces)
    return whole(200, lines + b"data: [DONE]\n\n", "text/event-stream; charset=utf-8")


def text(*pieces: str) -> Callable[[Handler], None]:
    return events(*({"choices": [{"text": piece}]} for piece in pieces))


def served(*names: str) -> Callable[[Handler], None]:
    return whole(200, {"data": [{"id": name} for name in names]})


def ask(url: str, provcheck: Callable[..., Any], *more: object) -> tuple[int, dict[str, Any]]:
    said = provcheck("_generate", url, "--model", "m", "--once", *more)
    assert len(said.out.splitlines()) == 1
    answer = json.loads(said.out)
    assert set(answer) == {"ok", "tokens", "text", "seconds", "why"}
    assert answer["ok"] == (said.code == 0)
    return said.code, answer


def test_a_server_that_generates_is_believed(serve: Serve, provcheck: Callable[..., Any]) -> None:
    seen: list[dict[str, Any]] = []

    def answer(handler: Any) -> None:
        seen.append(json.loads(handler.body))
        text(" Paris", "", ".")(handler)

    code, said = ask(serve({COMPLETIONS: answer}), provcheck)
    assert (code, said["tokens"], said["text"]) == (0, 2, " Paris.")
    assert {key: seen[0][key] for key in ("model", "stream", "temperature", "ignore_eos")} == {
        "model": "m",
        "stream": True,
        "temperature": 0,
        "ignore_eos": True,
    }


def test_an_address_with_v1_is_the_same_server(serve: Serve, provcheck: Callable[..., Any]) -> None:
    assert ask(serve({COMPLETIONS: text("a")}) + "/v1/", provcheck)[0] == 0


def test_a_chat_only_server_is_asked_by_chat_and_reasoning_counts(
    serve: Serve, provcheck: Callable[..., Any]
) -> None:
    pieces = (
        {"choices": [{"delta": {"role": "assistant"}}]},
        {"choices": [{"delta": {"reasoning_content": "Hm"}}]},
    )
    url = serve({CHAT: events(*pieces), MODELS: served("m")})
    assert ask(url, provcheck)[0] == 0


def test_health_alone_proves_nothing(serve: Serve, provcheck: Callable[..., Any]) -> None:
    code, said = ask(serve({("GET", "/health"): whole(200, b"")}), provcheck)
    assert (code, said["tokens"]) == (1, 0)


@pytest.mark.parametrize(
    ("answers", "word"),
    [
        ({COMPLETIONS: text("", "")}, "generates nothing"),
        ({COMPLETIONS: events({"choices": []}, {"usage": {"completion_tokens": 8}})}, "generates nothing"),
        ({COMPLETIONS: events()}, "generates nothing"),
        ({COMPLETIONS: whole(200, {"choices": [{"text": ""}]})}, "generates nothing"),
        ({COMPLETIONS: whole(200, ["a"])}, "no completion"),
        ({COMPLETIONS: events({"error": {"message": "CUDA error"}})}, "CUDA error"),
        ({COMPLETIONS: whole(401, {"error": "no"})}, "--api-key-file"),
        ({COMPLETIONS: whole(404, {"message": "no such"}), MODELS: served("a", "b")}, "served: a, b"),
        ({COMPLETIONS: whole(400, {"error": {"message": "bad n"}}), MODELS: served("m")}, "bad n"),
        ({COMPLETIONS: whole(307, b"")}, "307"),
    ],
)
def test_a_server_that_answers_and_does_not_generate_fails_at_once(
    answers: dict[tuple[str, str], Any], word: str, serve: Serve
) -> None:
    target = server(serve(answers), "m")
    start = time.monotonic()
    result, code = generate.wait(target, 30.0)
    assert (code, result.ok) == (1, False)
    assert word in result.why
    assert time.monotonic() - start < 5


def test_a_server_that_is_not_ready_is_waited_for(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generate, "_PAUSE", 0.02)
    tries: list[str] = []

    def answer(handler: Any) -> None:
        tries.append("x")
        (text("ok") if len(tries) > 2 else whole(503, {"detail": "loading"}))(handler)

    lines: list[str] = []
    result, code = generate.wait(server(serve({COMPLETIONS: answer}), "m"), 20.0, progress=lines.append)
    assert (code, result.ok, len(tries)) == (0, True, 3)
    assert len(lines) == 1, "the same news is told once"
    assert "loading" in lines[0]


def test_a_server_that_never_gets_ready_fails_at_the_deadline(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generate, "_PAUSE", 0.02)
    result, code = generate.wait(server(serve({COMPLETIONS: whole(503, b"")}), "m"), 0.3)
    assert code == 1
    assert "not ready" in result.why


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_where_nothing_listens_the_answer_is_unknown(provcheck: Callable[..., Any]) -> None:
    code, said = ask(f"127.0.0.1:{free_port()}", provcheck)
    assert code == 3
    assert "nothing listens" in said["why"]


def answer_once(reply: bytes) -> int:
    """A port that answers one connection with these bytes, then listens no more."""
    listener = socket.create_server(("127.0.0.1", 0))

    def run() -> None:
        with listener:
            link, _ = listener.accept()
        with link:
            link.recv(65536)
            link.sendall(reply)

    threading.Thread(target=run, daemon=True).start()
    return int(listener.getsockname()[1])


def test_a_server_that_dies_while_it_starts_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generate, "_PAUSE", 0.05)
    port = answer_once(b"HTTP/1.1 503 Loading\r\nContent-Length: 0\r\n\r\n")
    result, code = generate.wait(server(f"127.0.0.1:{port}", "m"), 30.0)
    assert code == 1
    assert "died" in result.why


def test_a_dead_process_ends_the_waiting(serve: Serve) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    time.sleep(0.3)
    assert not generate.process_alive(gone.pid), "a zombie is dead"
    gone.wait()
    result, code = generate.wait(
        server(serve({COMPLETIONS: text("a")}), "m"), 30.0, alive=generate.pid_watch(gone.pid)
    )
    assert code == 1
    assert "process is gone" in result.why


@pytest.mark.parametrize("drip", [b"", b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {"])
def test_a_server_that_takes_the_request_and_stalls_is_cut_off(drip: bytes) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    release = threading.Event()

    def run() -> None:
        link, _ = listener.accept()
        with link:
            link.sendall(drip)
            release.wait(20)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    start = time.monotonic()
    met = attempt(server(f"127.0.0.1:{listener.getsockname()[1]}", "m"), 0.5)
    assert time.monotonic() - start < 3
    assert met.kind is Kind.BROKE_OFF
    release.set()
    thread.join()
    listener.close()


def test_headers_that_drip_forever_are_cut_off() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    stop = threading.Event()

    def run() -> None:
        link, _ = listener.accept()
        end = time.monotonic() + 4
        with link:
            while not stop.is_set() and time.monotonic() < end:
                try:
                    link.sendall(b"x")
                except OSError:
                    return
                stop.wait(0.05)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    start = time.monotonic()
    met = attempt(server(f"127.0.0.1:{listener.getsockname()[1]}", "m"), 0.5)
    assert time.monotonic() - start < 3
    assert met.kind is Kind.BROKE_OFF
    stop.set()
    thread.join()
    listener.close()


def test_an_endless_stream_is_no_completion(serve: Serve) -> None:
    def answer(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.end_headers()
        for _ in range(4000):
            handler.wfile.write(b'data: {"choices": [{"text": "' + b"a" * 1000 + b'"}]}\n\n')

    met = attempt(server(serve({COMPLETIONS: answer}), "m"), 20.0)
    assert met.kind is Kind.BROKE_OFF


def test_the_key_goes_into_the_header_and_nowhere_else(
    serve: Serve, provcheck: Callable[..., Any], tmp_path: Path
) -> None:
    path = tmp_path / "key"
    path.write_text(KEY + "\n")
    seen: list[str | None] = []

    def answer(handler: Handler) -> None:
        seen.append(handler.headers.get("Authorization"))
        whole(401, {"error": "wrong key"})(handler)

    said = provcheck(
        "_generate", serve({COMPLETIONS: answer}), "--model", "m", "--once", "--api-key-file", path
    )
    assert (said.code, seen) == (1, [f"Bearer {KEY}"])
    assert KEY not in said.out + said.err
    assert "refused" in said.out
    assert KEY not in repr(server("127.0.0.1", "m", path))


@pytest.mark.parametrize("content", [b"", b"two words", b"line\nbreak", b"\xff\xfe", b"x" * 9000])
def test_a_file_that_holds_no_key_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_bytes(content)
    with pytest.raises(BadInput, match="one key"):
        server("127.0.0.1", "m", path)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "ftp://x",
        "http://",
        "http://u:p@x",
        "http://x:99999",
        "http://x/?q=1",
        "http://x y/",
        "http://[::1",
    ],
)
def test_an_address_that_is_none_is_exit_2(url: str, provcheck: Callable[..., Any]) -> None:
    said = provcheck("_generate", url, "--model", "m", "--once")
    assert (said.code, said.out) == (2, "")


def test_our_own_process_is_no_server(provcheck: Callable[..., Any]) -> None:
    import os

    assert provcheck("_generate", "127.0.0.1", "--model", "m", "--once", "--pid", os.getpid()).code == 2
