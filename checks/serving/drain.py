"""Waits until a server has nothing to do: no request running, none waiting, by its own ``/metrics``.

Where it says nothing of that kind, open connections to its port are waited for instead: they may be idle ones of a
client's pool, so that is the weaker look, and the wait has an end in both cases.
"""

from __future__ import annotations

import ipaddress
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from checks.errors import BadInput
from checks.serving import counters, metrics
from checks.serving.client import Client, NoAnswer

_PAUSE = 0.25
_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_ESTABLISHED = "01"


@dataclass(frozen=True)
class Drained:
    """``requests``: how many still run or wait, None where the server does not say; ``clients``: the addresses that
    hold a connection; ``seconds``: how long it took."""

    idle: bool
    requests: float | None
    clients: tuple[str, ...]
    seconds: float
    why: str

    def line(self) -> str:
        return json.dumps(asdict(self))

    def sentence(self) -> str:
        took = f"after {self.seconds:.1f} s"
        held = f"; still connected: {', '.join(self.clients[:8])}" if self.clients else ""
        if self.requests is None:
            state = "nobody is connected" if self.idle else "clients are connected"
            return f"{state} {took} (it does not tell its requests: {self.why}){held}"
        if self.idle:
            return f"no request runs or waits {took}{held}"
        return f"{self.requests:.0f} request(s) still run or wait {took}; they are ended{held}"


def wait(client: Client, seconds: float, clients: Callable[[], tuple[str, ...]]) -> Drained:
    """Looks until two looks in a row find it idle, at most ``seconds``."""
    start = time.monotonic()
    quiet = 0
    while True:
        requests, why = in_flight(client)
        held = clients()
        busy = bool(held) if requests is None else requests > 0
        quiet = 0 if busy else quiet + 1
        waited = time.monotonic() - start
        if quiet >= 2 or waited >= seconds:
            return Drained(quiet >= 2, requests, held, round(waited, 2), why)
        time.sleep(_PAUSE)


def in_flight(client: Client) -> tuple[float | None, str]:
    """Requests that run or wait, by the server's own page; None and the reason where it does not say."""
    try:
        page = client.page("/metrics", 5.0)
    except NoAnswer as error:
        return None, str(error)
    if page is None:
        return None, "it has no /metrics page"
    try:
        seen = counters.of_page(metrics.parse(page))
    except BadInput as error:
        return None, str(error)
    if seen.running is None:
        return None, "its /metrics page counts no running requests"
    return seen.running + (seen.waiting or 0.0), ""


def connected(port: int, tables: tuple[str, ...] = _TABLES) -> tuple[str, ...]:
    """The addresses that hold a connection to a local port, each once."""
    found: dict[str, None] = {}
    for table in tables:
        try:
            text = Path(table).read_text(encoding="ascii", errors="replace")
        except OSError:
            continue
        found |= dict.fromkeys(peers(text, port))
    return tuple(found)


def peers(text: str, port: int) -> list[str]:
    """The far ends of the established connections to ``port`` in a table as ``/proc/net/tcp`` has it."""
    found = []
    for line in text.splitlines()[1:]:
        words = line.split()
        if len(words) < 4 or words[3] != _ESTABLISHED:
            continue
        try:
            here = int(words[1].rpartition(":")[2], 16)
            address = _address(words[2].rpartition(":")[0])
        except ValueError:
            continue
        if here == port:
            found.append(address)
    return found


def _address(text: str) -> str:
    """The kernel prints each four bytes as one number of the machine's order; all that run it are little-endian."""
    raw = bytes.fromhex(text)
    turned = b"".join(raw[at : at + 4][::-1] for at in range(0, len(raw), 4))
    address = ipaddress.ip_address(turned)
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)
