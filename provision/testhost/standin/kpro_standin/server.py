"""The HTTP face of the engine: the OpenAI API, ``/health``, ``/metrics``, ``/version``."""

from __future__ import annotations

import hmac
import json
import logging
import os
import select
import socket
import threading
import time
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from . import answers, protocol
from .engine import Aborted, Engine
from .version import VERSION

NOTE = "stand-in engine for tests: it makes up words and is not a language model"
BODY_LIMIT = 16 * 1024 * 1024
TOKENS = ("/tokenize", "/detokenize")
COMPLETIONS = ("/v1/completions", "/v1/chat/completions")
log = logging.getLogger("kpro-standin")


class Server(ThreadingHTTPServer):
    """``keys``: API keys, any of which opens ``/v1``; none: open. Counts the requests that are in flight."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, host: str, port: int, engine: Engine, keys: tuple[str, ...] = ()) -> None:
        self.address_family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        self.engine = engine
        self.keys = tuple(key.encode() for key in keys)
        self.draining = threading.Event()
        self._idle = threading.Condition()
        self._in_flight = 0
        super().__init__((host, port), Handler)

    def server_bind(self) -> None:
        # HTTPServer's own version asks the resolver for the host's name, which can take seconds.
        socket_address = self.server_address
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(socket_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def entered(self, change: int) -> None:
        with self._idle:
            self._in_flight += change
            self._idle.notify_all()

    def drain(self, seconds: float) -> bool:
        """Waits until no request is in flight; aborts those that still are after ``seconds``."""
        with self._idle:
            clean = self._idle.wait_for(lambda: self._in_flight == 0, seconds)
            self.engine.abort.set()
            self._idle.wait_for(lambda: self._in_flight == 0, 2.0)
        return clean


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    server_version = f"kpro-standin/{VERSION}"
    sys_version = ""
    # An idle connection is dropped after this many seconds; a running answer is not bound by it.
    timeout = 65

    def do_GET(self) -> None:
        self._count(self._get)

    def do_POST(self) -> None:
        self._count(self._post)

    def _count(self, handle: Any) -> None:
        self.server.entered(+1)
        try:
            handle()
        except (Aborted, ConnectionError, TimeoutError):
            # The client left, or the server stops: there is nobody to tell.
            self.close_connection = True
        finally:
            self.server.entered(-1)

    def _get(self) -> None:
        path = self.path.partition("?")[0]
        if path in ("/health", "/ping"):
            return self._health()
        if path == "/version":
            return self._json(
                200, {"version": VERSION, "engine": "kpro-standin", "stand_in": True, "note": NOTE}
            )
        if path == "/metrics":
            text = self.server.engine.metrics.render().encode()
            return self._send(200, text, "text/plain; version=0.0.4; charset=utf-8")
        if path == "/v1/models":
            return self._models() if self._open() else None
        if path in COMPLETIONS:
            return self._error(405, f"{path} takes POST")
        return self._error(404, f"there is no {path}")

    def _post(self) -> None:
        path = self.path.partition("?")[0]
        raw = self._body()
        if raw is None or (path.startswith("/v1/") and not self._open()):
            return
        if path in TOKENS:
            return self._tokens(path, raw)
        if path not in COMPLETIONS:
            return self._error(
                405 if path in ("/health", "/metrics", "/v1/models") else 404, f"no POST {path}"
            )
        engine = self.server.engine
        if engine.fault == "dies":
            log.error("EngineDeadError: the engine core died at its first request (fault: dies)")
            os._exit(1)
        if engine.fault == "health-only":
            return self._error(500, "EngineCore encountered an issue (fault: health-only)")
        try:
            request = protocol.parse(path, raw, engine.model, engine.name)
        except protocol.BadRequest as error:
            return self._error(error.status, str(error))
        if engine.fault == "hang":
            return engine.hang(self._gone)
        return self._stream(request) if request.stream else self._whole(request)

    def _health(self) -> None:
        if self.server.draining.is_set():
            return self._error(503, "stopping")
        if not self.server.engine.ready.is_set():
            return self._error(503, "still starting")
        return self._send(200, b"", "application/json")

    def _open(self) -> bool:
        """Whether ``/v1`` answers this request; if not, the refusal is already sent."""
        given = self.headers.get("Authorization", "").encode("utf-8", "replace")
        allowed = [hmac.compare_digest(given, b"Bearer " + key) for key in self.server.keys]
        if self.server.keys and not any(allowed):
            self._error(401, "a valid API key is needed: Authorization: Bearer <key>")
        elif self.server.draining.is_set():
            self._error(503, "stopping")
        elif not self.server.engine.ready.is_set():
            self._error(503, "still starting")
        else:
            return True
        return False

    def _models(self) -> None:
        engine = self.server.engine
        card = {
            "id": engine.name,
            "object": "model",
            "created": int(time.time()),
            "owned_by": "kpro-standin",
            "root": engine.name,
            "parent": None,
            "max_model_len": engine.model.max_len,
        }
        self._json(200, {"object": "list", "data": [card]})

    def _tokens(self, path: str, raw: bytes) -> None:
        """As vLLM: outside ``/v1``, so without a key."""
        engine = self.server.engine
        try:
            if path == "/detokenize":
                return self._json(200, {"prompt": protocol.parse_detokenize(raw, engine.model, engine.name)})
            ids = protocol.parse_tokenize(raw, engine.model, engine.name)
        except protocol.BadRequest as error:
            return self._error(error.status, str(error))
        told = {"count": len(ids), "max_model_len": engine.model.max_len, "tokens": list(ids)}
        return self._json(200, {**told, "token_strs": None})

    def _whole(self, request: protocol.Request) -> None:
        engine = self.server.engine
        plan = engine.plan(request)
        for _ in engine.play(request, plan, self._gone):
            pass
        self._json(200, answers.Answer(request, engine.model).whole(plan.tokens, plan.finish))

    def _stream(self, request: protocol.Request) -> None:
        engine = self.server.engine
        plan, answer = engine.plan(request), answers.Answer(request, engine.model)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if opening := answer.opening():
            self._event(json.dumps(opening))
        # Closed by name: the end of a request is counted when its player is closed, also on a lost client.
        with closing(engine.play(request, plan, self._gone)) as steps:
            for step in steps:
                finish = plan.finish if step is plan.steps[-1] else None
                self._event(json.dumps(answer.piece(step.tokens, finish)))
        if request.include_usage:
            self._event(json.dumps(answer.closing()))
        self._event("[DONE]")
        self.wfile.write(b"0\r\n\r\n")

    def _event(self, data: str) -> None:
        frame = f"data: {data}\n\n".encode()
        self.wfile.write(f"{len(frame):x}\r\n".encode() + frame + b"\r\n")

    def _body(self) -> bytes | None:
        """The request's body; ``None`` when it was refused."""
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal():
            self.close_connection = True
            self._error(411, "Content-Length is needed")
            return None
        if int(length) > BODY_LIMIT:
            self.close_connection = True
            self._error(413, f"the body is larger than {BODY_LIMIT} bytes")
            return None
        return self.rfile.read(int(length))

    def _gone(self) -> bool:
        """Whether the client closed its side."""
        poll = select.poll()
        poll.register(self.connection, select.POLLIN)
        try:
            return bool(poll.poll(0)) and not self.connection.recv(1, socket.MSG_PEEK)
        except OSError:
            return True

    def _error(self, status: int, message: str) -> None:
        self._json(status, answers.error(status, message))

    def _json(self, status: int, value: dict[str, Any]) -> None:
        self._send(status, json.dumps(value).encode(), "application/json")

    def _send(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if self.server.draining.is_set():
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        # Escaped: what a client sends must not write control characters into the log.
        line = self.requestline.encode("unicode_escape").decode()
        log.info('%s:%s - "%s" %d', *self.client_address[:2], line, int(code))

    def log_message(self, format: str, *args: Any) -> None:
        log.info("%s:%s - %s", *self.client_address[:2], (format % args).encode("unicode_escape").decode())
