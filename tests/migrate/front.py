"""Before the service: Debian's real HAProxy in the network of the pair, and clients that ask all the time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.migrate.rig import BRIDGE, LXC, Pair

FRONT_PORT = 8080
SOCKET = "srv/front.sock"

_CONFIG = """\
global
    stats socket /{socket} mode 600 level admin
    maxconn 200
defaults
    mode http
    timeout connect 2s
    timeout client 30s
    timeout server 30s
    option redispatch
frontend front
    bind {bridge}:{front}
    default_backend llm
backend llm
    option httpchk GET /health
    http-response set-header X-Served %s
    server one {a}:{port} check inter 200ms
    server two {b}:{port} check backup inter 200ms
"""


@dataclass
class Front:
    """The proxy's process belongs to the test: it lives on when a host dies."""

    pair: Pair
    process: subprocess.Popen[bytes]
    root: Path

    @property
    def socket(self) -> Path:
        return self.root / SOCKET

    @property
    def spec(self) -> str:
        """As an operator writes it."""
        return f"HAProxy(backend='llm', source='one', target='two', socket={str(self.socket)!r})"

    def ask(self, text: str) -> str:
        """The runtime API, past the product."""
        words = [sys.executable, "-c", _ASK, str(self.socket), text]
        return subprocess.run(words, capture_output=True, text=True, timeout=10, check=True).stdout

    def reset(self) -> None:
        for server in ("one", "two"):
            self.ask(f"set server llm/{server} state ready")


_ASK = """
import socket, sys
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.sendall(sys.argv[2].encode() + b"\\n")
while data := s.recv(65536): sys.stdout.write(data.decode())
"""


@contextmanager
def front(pair: Pair, port: int) -> Iterator[Front]:
    """HAProxy of host a's packages. Its root is a's folder seen from outside, so that it is no process of a."""
    root = LXC / pair.a.container / "rootfs"
    config = root / "srv/front.cfg"
    config.write_text(
        _CONFIG.format(
            socket=SOCKET,
            bridge=BRIDGE,
            front=FRONT_PORT,
            a=pair.a.address,
            b=pair.b.address,
            port=port,
        )
    )
    words = pair.net.words("chroot", str(root), "/usr/sbin/haproxy", "-db", "-f", "/srv/front.cfg")
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        until = time.monotonic() + 10
        while not (root / SOCKET).exists():
            assert process.poll() is None, "HAProxy ended"
            assert time.monotonic() < until, "HAProxy does not come up"
            time.sleep(0.05)
        yield Front(pair, process, root)
    finally:
        process.terminate()
        process.wait(10)
        (root / SOCKET).unlink(missing_ok=True)


_CLIENT = """
import json, sys, threading, time, urllib.error, urllib.request
url, key, threads = sys.argv[1], sys.stdin.readline().strip(), int(sys.argv[2])
lock = threading.Lock()
def ask(number):
    at = 0
    while True:
        at += 1
        prompt = f"question {(number + at) % 5}"
        body = {"model": "tiny", "prompt": prompt, "max_tokens": 16, "temperature": 0, "ignore_eos": True}
        request = urllib.request.Request(url, json.dumps(body).encode(), {
            "Content-Type": "application/json", "Authorization": "Bearer " + key})
        began, said = time.time(), {"prompt": prompt}
        try:
            with urllib.request.urlopen(request, timeout=20) as reply:
                said |= {"status": reply.status, "served": reply.headers.get("X-Served"),
                         "text": json.load(reply)["choices"][0]["text"]}
        except urllib.error.HTTPError as error:
            said |= {"status": error.code, "served": error.headers.get("X-Served")}
        except Exception as error:
            said |= {"status": 0, "why": repr(error)}
        with lock:
            print(json.dumps({"began": began, "ended": time.time()} | said), flush=True)
        time.sleep(0.02 if said["status"] == 200 else 0.1)
for number in range(threads):
    threading.Thread(target=ask, args=(number,), daemon=True).start()
time.sleep(600)
"""


@dataclass
class Client:
    """Asks over and over, several at once, and writes down every answer."""

    log: Path
    process: subprocess.Popen[bytes]

    def answers(self) -> list[dict[str, Any]]:
        lines = self.log.read_text().splitlines()
        return [json.loads(line) for line in lines if line.endswith("}")]

    def stop(self) -> list[dict[str, Any]]:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait(10)
        return self.answers()

    def wait_for_answers(self, count: int, seconds: float = 30) -> None:
        until = time.monotonic() + seconds
        while sum(one["status"] == 200 for one in self.answers()) < count:
            assert time.monotonic() < until, self.answers()[-3:]
            time.sleep(0.1)


@contextmanager
def client(pair: Pair, folder: Path, key: str, threads: int = 3) -> Iterator[Client]:
    log = folder / f"client-{time.time_ns()}.jsonl"
    script = folder / "client.py"
    script.write_text(_CLIENT)
    url = f"http://{BRIDGE}:{FRONT_PORT}/v1/completions"
    with log.open("wb") as sink:
        process = subprocess.Popen(
            pair.net.words(sys.executable, str(script), url, str(threads)),
            stdin=subprocess.PIPE,
            stdout=sink,
            start_new_session=True,
            env={**os.environ, "no_proxy": "*"},
        )
    assert process.stdin is not None
    process.stdin.write(f"{key}\n".encode())
    process.stdin.close()
    try:
        yield Client(log, process)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(10)


@dataclass(frozen=True)
class Window:
    """Of the wall clock: the start of the drain, and the end of the first answer of the target."""

    opened: float
    closed: float

    @property
    def seconds(self) -> float:
        return self.closed - self.opened


def failed_outside(answers: list[dict[str, Any]], window: Window) -> list[dict[str, Any]]:
    """Requests that failed though they neither began nor ended within the window."""
    return [
        one
        for one in answers
        if one["status"] != 200 and (one["ended"] < window.opened or one["began"] > window.closed)
    ]


def wrong(answers: list[dict[str, Any]], right: dict[str, str]) -> list[dict[str, Any]]:
    return [one for one in answers if one["status"] == 200 and one["text"] != right[one["prompt"]]]
