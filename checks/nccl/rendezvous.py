"""Where nodes meet: node 0 listens on one TCP port, hands ids around and gathers what each measured.

Requests and answers are JSON lines of bounded length. Both sides prove that they know the run's token by an HMAC
over the other's random number; whoever does not is cut off. Nothing is executed that comes over the wire.
"""

from __future__ import annotations

import hmac
import json
import secrets
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from checks.nccl import own

LINE_LIMIT = 8 << 20
GREET_LIMIT = 4096
GREET_S = 10.0
ALL_S = 20.0


class Refused(Exception):
    """The other side is not of this run, or said nothing sensible."""


class Line:
    """JSON lines over a socket, each with a deadline. Raises OSError or Refused."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock, self._rest = sock, b""

    def say(self, **line: Any) -> None:
        self._sock.sendall(json.dumps(line).encode() + b"\n")

    def hear(self, seconds: float, limit: int = LINE_LIMIT) -> dict[str, Any]:
        end = time.monotonic() + seconds
        while b"\n" not in self._rest:
            left = end - time.monotonic()
            if left <= 0:
                raise TimeoutError("no answer in time")
            self._sock.settimeout(left)
            data = self._sock.recv(1 << 16)
            if not data:
                raise Refused("the other side closed the connection")
            self._rest += data
            if len(self._rest) > limit:
                raise Refused("a line longer than any of ours")
        raw, _, self._rest = self._rest.partition(b"\n")
        try:
            line = json.loads(raw)
        except (ValueError, RecursionError):
            line = None
        if not isinstance(line, dict):
            raise Refused("a line that is none of ours")
        return line

    def close(self) -> None:
        with suppress(OSError):
            self._sock.close()


def proof(token: bytes, role: str, nonce: str) -> str:
    return hmac.new(token, f"{role}\0{nonce}".encode(), "sha256").hexdigest()


class Board:
    """What node 0 knows: who joined with how many GPUs, the id of each step, each node's results."""

    def __init__(self, nodes: int) -> None:
        self.nodes = nodes
        self.joined: dict[int, dict[str, Any]] = {}
        self.ids: dict[int, str | None] = {}
        self.results: dict[tuple[int, int], dict[str, Any]] = {}
        self.words: dict[str, dict[int, dict[str, Any]]] = {}
        self.strangers = 0
        self.told: set[int] = set()
        """Who has the answer to its join, or cannot be given one any more."""
        self._claimed: set[int] = set()
        self._changed = threading.Condition()

    def claim(self, node: int) -> bool:
        """Whether nobody was this node before: of two that say they are, the second is refused."""
        with self._changed:
            mine = node not in self._claimed
            self._claimed.add(node)
            return mine

    def change(self, work: Callable[[], None]) -> None:
        with self._changed:
            work()
            self._changed.notify_all()

    def wait(self, ready: Callable[[], bool], seconds: float) -> bool:
        with self._changed:
            return self._changed.wait_for(ready, seconds)


def _listen(host: str, port: int, backlog: int) -> socket.socket:
    """On all addresses, or on a loopback address that is named as such.

    Debian has a host's own name as 127.0.1.1 in /etc/hosts: listening there would leave the other nodes outside.
    """
    if host == "localhost" or host.startswith("127.") or host == "::1":
        family = socket.AF_INET6 if host == "::1" else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=backlog)
    both = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both else socket.AF_INET
    return socket.create_server(("", port), family=family, backlog=backlog, dualstack_ipv6=both)


class Server:
    """Node 0's side; serves until ``close``. Raises OSError when the port cannot be had."""

    def __init__(self, host: str, port: int, token: bytes, nodes: int, join_s: float, id_s: float) -> None:
        self.board = Board(nodes)
        self._token, self._join_s, self._id_s = token, join_s, id_s
        self._socket = _listen(host, port, nodes + 8)
        self._started = time.monotonic()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        line = Line(sock)
        try:
            node = self._greet(line)
            while True:
                self._answer(line, node, line.hear(3600))
        except (OSError, Refused, ValueError, TypeError, KeyError):
            pass  # a node that went away shows as results that never come
        finally:
            line.close()

    def _greet(self, line: Line) -> int:
        nonce = secrets.token_hex(16)
        line.say(nonce=nonce)
        told = line.hear(GREET_S, GREET_LIMIT)
        node = told.get("node")
        right = proof(self._token, f"node {node}", nonce)
        if not isinstance(node, int) or not hmac.compare_digest(str(told.get("mac")), right):
            self.board.change(lambda: setattr(self.board, "strangers", self.board.strangers + 1))
            raise Refused("not of this run")
        if not 0 <= node < self.board.nodes or not self.board.claim(node):
            line.say(refused=f"node {node} is there already, or there are only {self.board.nodes} nodes")
            raise Refused("no such node, or twice")
        line.say(mac=proof(self._token, "server", str(told.get("nonce"))))
        return node

    def _answer(self, line: Line, node: int, asked: dict[str, Any]) -> None:
        board, step = self.board, int(asked.get("step", 0))
        if asked["op"] == "join":
            entry = {"gpus": max(0, min(64, int(asked["gpus"]))), "why": str(asked.get("why") or "")[:300]}
            entry["uuids"] = own.heard(asked.get("uuids"))
            board.change(lambda: board.joined.update({node: entry}))
            left = self._join_s - (time.monotonic() - self._started)
            board.wait(lambda: len(board.joined) == board.nodes, max(0.0, left))
            try:
                line.say(nodes={str(number): told for number, told in sorted(board.joined.items())})
            finally:
                board.change(lambda: board.told.add(node))
        elif asked["op"] == "id":
            identity = asked["id"]
            if identity is not None and not (isinstance(identity, str) and len(identity) == 256):
                raise Refused("an id that is none")
            board.change(lambda: board.ids.update({step: identity}))
            line.say(ok=True)
        elif asked["op"] == "wait":
            board.wait(lambda: step in board.ids, self._id_s)
            line.say(id=board.ids.get(step))
        elif asked["op"] == "all":
            name, count = str(asked["name"])[:40], max(1, min(board.nodes, int(asked["count"])))
            board.change(lambda: board.words.setdefault(name, {}).update({node: dict(asked["word"])}))
            board.wait(lambda: len(board.words[name]) >= count, ALL_S)
            line.say(words={str(number): word for number, word in board.words[name].items()})
        elif asked["op"] == "result":
            board.change(lambda: board.results.update({(step, node): dict(asked["run"])}))
            line.say(ok=True)
        else:
            raise Refused("no such request")

    def close(self) -> None:
        """Once everybody who joined was told who did: node 0 may be through at once, where nothing is measured."""
        self.board.wait(lambda: set(self.board.joined) <= self.board.told, GREET_S)
        # A thread in accept() does not notice a close from another thread; shutdown wakes it.
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


class Client:
    """A node's side. ``connect`` raises OSError when node 0 does not come, Refused when it is another run's."""

    def __init__(self, line: Line) -> None:
        self._line = line

    @classmethod
    def connect(cls, host: str, port: int, token: bytes, node: int, seconds: float) -> Client:
        end = time.monotonic() + seconds
        while True:
            try:
                sock = socket.create_connection((host, port), max(0.1, min(5.0, end - time.monotonic())))
                break
            except OSError:
                if time.monotonic() >= end:
                    raise
                time.sleep(0.2)
        line = Line(sock)
        try:
            cls._prove(line, token, node)
        except BaseException:
            line.close()
            raise
        return cls(line)

    @staticmethod
    def _prove(line: Line, token: bytes, node: int) -> None:
        own = secrets.token_hex(16)
        nonce = str(line.hear(GREET_S, GREET_LIMIT).get("nonce"))
        line.say(node=node, mac=proof(token, f"node {node}", nonce), nonce=own)
        told = line.hear(GREET_S, GREET_LIMIT)
        if "refused" in told:
            raise Refused(str(told["refused"])[:200])
        if not hmac.compare_digest(str(told.get("mac")), proof(token, "server", own)):
            raise Refused("what listens there is not node 0 of this run")

    def join(
        self, gpus: int, uuids: Mapping[str, str], why: str, seconds: float
    ) -> dict[int, dict[str, Any]]:
        """All nodes that came, with their GPUs, once all are there or the deadline of node 0 passed."""
        told = self._ask(seconds, op="join", gpus=gpus, uuids=dict(uuids), why=why)["nodes"]
        return {
            int(number): {**entry, "uuids": own.heard(entry.get("uuids"))} for number, entry in told.items()
        }

    def give_id(self, step: int, identity: str | None) -> None:
        self._ask(GREET_S, op="id", step=step, id=identity)

    def wait_id(self, step: int, seconds: float) -> str | None:
        identity = self._ask(seconds, op="wait", step=step).get("id")
        return identity if isinstance(identity, str) else None

    def everybody(self, name: str, word: Mapping[str, Any], count: int) -> dict[int, dict[str, Any]]:
        """The words of ``count`` nodes under this name, once all have said theirs; of those that are late, none."""
        told = self._ask(2 * ALL_S, op="all", name=name, word=dict(word), count=count)["words"]
        return {int(number): dict(one) for number, one in told.items()}

    def result(self, step: int, run: dict[str, Any]) -> None:
        self._ask(60.0, op="result", step=step, run=run)

    def _ask(self, seconds: float, **line: Any) -> dict[str, Any]:
        self._line.say(**line)
        return self._line.hear(seconds)

    def close(self) -> None:
        self._line.close()
