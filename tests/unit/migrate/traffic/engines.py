"""Engines on loopback as a door meets them: their counters, their key, and everything else that may answer there."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from provision.host.transport import Completed
from provision.migrate.traffic import ways
from provision.migrate.traffic.door import Entrance
from provision.migrate.traffic.messages import Address
from provision.spec import Engine, Model, Service

KEY = "sk-of-the-service-0123456789"


@dataclass
class Serving:
    """What one answers. ``made``: tokens so far; ``busy``: more at each look; ``seconds``: of all its requests.
    ``page`` False: it shows no counters. ``counts`` False: it makes tokens that its counters do not show."""

    made: int = 40
    busy: int = 0
    seconds: float = 1.25
    page: bool = True
    counts: bool = True
    text: str = " 5 6 7 8"
    key: str = KEY
    status: int = 200
    down: bool = False
    """Its counters go down and up, as where each worker counts for itself."""
    keys: list[str] = field(default_factory=list)

    def metrics(self) -> str:
        self.made += self.busy
        shown = self.made
        if self.down:
            self.made += 50 if self.made < 40 else -50
        return (
            "# TYPE vllm:generation_tokens_total counter\n"
            f'vllm:generation_tokens_total{{model_name="chat"}} {shown}.0\n'
            "# TYPE vllm:e2e_request_latency_seconds histogram\n"
            f'vllm:e2e_request_latency_seconds_sum{{model_name="chat"}} {self.seconds}\n'
            "# TYPE vllm:num_requests_running gauge\n"
            f"vllm:num_requests_running {self.made % 7}\n"
        )

    def completion(self, key: str) -> tuple[int, str]:
        self.keys.append(key)
        if self.status != 200:
            return self.status, "unlucky"
        if key != (f"Bearer {self.key}" if self.key else ""):
            return 401, json.dumps({"error": "Unauthorized"})
        self.made += 8 if self.counts else 0
        return 200, json.dumps({"choices": [{"text": self.text}], "usage": {"completion_tokens": 8}})


@contextmanager
def serving(engine: Serving) -> Iterator[int]:
    """Its port."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _say(self, status: int, text: str) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def do_GET(self) -> None:
            if self.path == "/health":
                self._say(200, "ok")
            elif self.path == "/metrics" and engine.page:
                self._say(200, engine.metrics())
            else:
                self._say(404, "nothing here")

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self._say(*engine.completion(self.headers.get("Authorization", "")))

        def log_message(self, *words: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@dataclass
class Side:
    """The target's guest, which is this machine. ``scripts``: all that was run there."""

    service: Service
    name: str = "kpro5"
    scripts: list[str] = field(default_factory=list)

    def inside(self, script: str, *, stdin: bytes = b"", timeout: float | None = 60) -> Completed:
        self.scripts.append(script)
        return ways.here(script, stdin, timeout or 60)


def side(port: int) -> Side:
    engine = Engine(kind="standin", version="1.0.0")
    model = Model(repo="kpro/tiny", revision="1" * 40)
    return Side(Service(name="door-test", engine=engine, model=model, listen="127.0.0.1", port=port))


def door(port: int) -> Entrance:
    return Entrance(
        ways.here, Address("127.0.0.1", port), "proxy1", f"server two (127.0.0.1:{port})", mend="correct it"
    )
