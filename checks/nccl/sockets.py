"""What TCP itself carries between nodes, on the addresses that NCCL's sockets used: the limit to hold NCCL against.

Every node sends to the next one and receives from the one before, at the same time, as a ring does. Only bytes that are
thrown away are sent, and only between nodes that know the run's token.
"""

from __future__ import annotations

import hmac
import re
import secrets
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from checks.nccl.rendezvous import GREET_S, proof

STREAMS = (1, 4)
"""Connections each way: one, which is the least that NCCL opens, and some, for what the wire can do."""
SECONDS = 1.0
PIECE = 4 << 20
_USING = re.compile(
    r"NCCL INFO NET/Socket : Using \[0\](?P<name>[^:\s]+):(?P<address>[0-9A-Fa-f.:]+?)(?:%\w+)?<\d+>"
)
_MAC = 64

All = Callable[[str, Mapping[str, Any]], dict[int, dict[str, Any]]]
"""Gives this node's word under a name to all nodes, and theirs to this one; of a node that is late, none."""


def used(log: str) -> tuple[str, str] | None:
    """Interface and address of NCCL's sockets by its own log; None when data did not go over them."""
    if "via NET/Socket" not in log:
        return None
    found = _USING.search(log)
    return (found["name"], found["address"]) if found else None


def measure(log: str, node: int, nodes: Sequence[int], token: bytes, everybody: All) -> dict[str, Any]:
    """``interface``, ``address``, and ``of_node``: node -> received GB/s by number of connections. ``error`` says why
    there is no more. Nobody measures unless all can."""
    here = used(log)
    told: dict[str, Any] = {} if here is None else {"interface": here[0], "address": here[1]}
    listener = None if here is None else _listener(here[1], len(nodes) * sum(STREAMS))
    mine: dict[str, Any] = {"nonce": secrets.token_hex(16)}
    if listener is not None and here is not None:
        mine |= {"host": here[1], "port": listener.getsockname()[1]}
    try:
        places = everybody("sockets", mine)
        unable = [str(other) for other in nodes if not places.get(other, {}).get("port")]
        if unable:
            return told | {
                "error": f"node {', '.join(unable)} did not use sockets, or could not listen on them"
            }
        after = nodes[(nodes.index(node) + 1) % len(nodes)]
        rates: dict[str, float] = {}
        for count in STREAMS:
            assert listener is not None
            ways = _connect(listener, places[after], mine["nonce"], token, count)
            everybody(f"sockets {count} ready", {"streams": count})
            rates[str(count)] = round(_together(*ways), 4)
        of_node = everybody("sockets done", {"rates": rates})
        return told | {"of_node": {str(other): row.get("rates") for other, row in sorted(of_node.items())}}
    except (OSError, ValueError, KeyError, TypeError) as error:
        return told | {"error": f"{type(error).__name__}: {error}"[:200]}
    finally:
        if listener is not None:
            listener.close()


def _listener(address: str, backlog: int) -> socket.socket | None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        return socket.create_server((address, 0), family=family, backlog=backlog)
    except OSError:
        return None


def _connect(
    listener: socket.socket, after: Mapping[str, Any], nonce: str, token: bytes, count: int
) -> tuple[list[socket.socket], list[socket.socket]]:
    """The connections to the next node and those from the one before. Raises OSError when they do not come about."""
    outward: list[socket.socket] = []
    inward: list[socket.socket] = []
    try:
        for _ in range(count):
            sock = socket.create_connection((str(after["host"]), int(after["port"])), GREET_S)
            outward.append(sock)
            sock.sendall(proof(token, "socket", str(after["nonce"])).encode())
        end = time.monotonic() + GREET_S
        while len(inward) < count:
            listener.settimeout(max(0.01, end - time.monotonic()))
            sock, _ = listener.accept()
            sock.settimeout(GREET_S)
            mac = sock.recv(_MAC, socket.MSG_WAITALL)
            if hmac.compare_digest(mac, proof(token, "socket", nonce).encode()):
                inward.append(sock)
            else:
                sock.close()
    except OSError:
        for sock in (*outward, *inward):
            sock.close()
        raise
    return outward, inward


def _together(outward: Sequence[socket.socket], inward: Sequence[socket.socket]) -> float:
    """GB/s that came in, of all connections together, while as much went out."""
    end = time.monotonic() + SECONDS
    came = [0] * len(inward)
    took = [0.0] * len(inward)
    workers = [threading.Thread(target=_send, args=(sock, end), daemon=True) for sock in outward]
    workers += [
        threading.Thread(target=_receive, args=(sock, came, took, number), daemon=True)
        for number, sock in enumerate(inward)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(SECONDS + 2 * GREET_S)
    for sock in (*outward, *inward):
        sock.close()
    if not all(took):
        raise OSError("nothing came over a connection")
    return sum(came) / max(took) / 1e9


def _send(sock: socket.socket, end: float) -> None:
    piece = memoryview(bytes(PIECE))
    sock.settimeout(GREET_S)
    with suppress(OSError):
        while time.monotonic() < end:
            sock.sendall(piece)
        sock.shutdown(socket.SHUT_WR)


def _receive(sock: socket.socket, came: list[int], took: list[float], number: int) -> None:
    piece = bytearray(PIECE)
    sock.settimeout(GREET_S)
    began = None
    with suppress(OSError):
        while count := sock.recv_into(piece):
            now = time.monotonic()
            began = now if began is None else began
            came[number] += count
            took[number] = now - began
