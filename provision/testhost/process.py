"""Runs a stand-in from its sources as a process of its own, on a free loopback port."""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .wheel import SOURCE

DEADLINE = 10.0


@dataclass(frozen=True)
class Reply:
    """An HTTP answer, read to its end."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[str]:
        """What a stream of server-sent events held, without its framing."""
        return [event.removeprefix("data: ") for event in self.body.decode().split("\n\n") if event]


class Standin:
    """A stand-in that was started; it may be ready, starting or dead."""

    def __init__(self, process: subprocess.Popen[bytes], log_file: Path) -> None:
        self.process = process
        self._log_file = log_file

    @property
    def log(self) -> str:
        return self._log_file.read_text(encoding="utf-8", errors="replace")

    @property
    def port(self) -> int:
        return int(self.wait_for(r"on \S+ port (\d+), starting")[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def wait_for(self, pattern: str) -> re.Match[str]:
        """The first match in the log. Raises ``TimeoutError`` when the process ends or DEADLINE passes."""
        until = time.monotonic() + DEADLINE
        while True:
            over = self.process.poll() is not None or time.monotonic() > until
            if match := re.search(pattern, self.log):
                return match
            if over:
                raise TimeoutError(f"no {pattern!r} in the stand-in's log:\n{self.log}")
            time.sleep(0.01)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        """One request on a connection of its own. ``body`` is sent as JSON unless it is bytes."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE)
        try:
            raw = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
            connection.request(method, path, raw, headers)
            response = connection.getresponse()
            return Reply(response.status, dict(response.headers), response.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Reply:
        return self.ask("GET", path, **headers)

    def complete(self, prompt: Any = "one two three", **options: Any) -> Reply:
        return self.ask("POST", "/v1/completions", {"prompt": prompt, **options})

    def chat(self, content: Any = "one two three", **options: Any) -> Reply:
        messages = [{"role": "user", "content": content}]
        return self.ask("POST", "/v1/chat/completions", {"messages": messages, **options})

    def stop(self) -> int:
        """Asks it to end (SIGTERM) and returns its exit status."""
        if self.process.poll() is None:
            self.process.terminate()
        return self.process.wait(DEADLINE)


@contextmanager
def running(model: Path, *args: str, ready: bool = True, port: int = 0, **environ: str) -> Iterator[Standin]:
    """A stand-in that serves ``model`` while the block runs; ``ready`` waits until it does.

    It sees ``environ`` and nothing else of this process's environment. Raises ``TimeoutError``, with its log,
    when it does not become ready.
    """
    with tempfile.TemporaryDirectory(prefix="kpro-standin-") as folder:
        log_file = Path(folder) / "log"
        # -S: without the site packages of this environment, for the stand-in may need none of them.
        command = [sys.executable, "-S", "-m", SOURCE.name, "--model", str(model), "--port", str(port), *args]
        path = {"PATH": os.environ.get("PATH", os.defpath), "PYTHONPATH": str(SOURCE.parent)}
        with log_file.open("wb") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**path, **environ}
            )
        try:
            standin = Standin(process, log_file)
            if ready:
                standin.wait_for("ready, serving")
            yield standin
        finally:
            process.kill()
            process.wait()
