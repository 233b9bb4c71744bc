"""What HAProxy says over its runtime API, read. Pure.

Formats: HAProxy's management guide, 9.1 (CSV of ``show stat``) and 9.3 (``show servers state``, ``show cli level``,
``set server``); columns are found by their names, because each release adds some.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass

FMAINT, IMAINT, CMAINT, FDRAIN, IDRAIN, RMAINT, HMAINT = 1, 2, 4, 8, 16, 32, 64
"""Bits of srv_admin_state: maintenance forced, inherited by ``track``, by the word ``disabled``; drain forced,
inherited; maintenance because the name, or the address asked for, was not resolved."""

_STARTING, _RUNNING = 1, 2
"""Of srv_op_state; 0 is stopped, 3 is stopping."""

_CHECK_CONFIGURED = 2
"""Bit of srv_check_state."""


class NotRead(ValueError):
    """The answer is none that was expected; the message holds what it was."""


@dataclass(frozen=True)
class Server:
    """``address`` with its port. ``check``: does a health check decide about it? ``sessions``: how many it has had in
    all; ``open``: now; ``queued``: waiting for it. ``last_check``: what the health check said last. ``tls``: it is
    spoken to in TLS."""

    name: str
    address: str
    op: int
    admin: int
    check: bool
    backup: bool = False
    sessions: int = 0
    open: int = 0
    queued: int = 0
    last_check: str = ""
    tls: bool = False

    @property
    def host(self) -> str:
        return self.address.rpartition(":")[0]

    @property
    def port(self) -> int:
        """0: the one that the client came to."""
        return int(self.address.rpartition(":")[2] or 0)

    @property
    def healthy(self) -> bool:
        return self.op in (_STARTING, _RUNNING)

    @property
    def usable(self) -> bool:
        """Would it get a new request?"""
        return self.healthy and not self.admin & ~CMAINT

    @property
    def drained(self) -> bool:
        """By hand, and by nothing else."""
        return self.admin & ~CMAINT == FDRAIN

    def words(self) -> str:
        """``kpro6 (192.0.2.6:8000) is up``, with what is set and what the check said."""
        health = "up" if self.healthy else "down"
        marks = [
            text
            for bits, text in (
                (FMAINT | IMAINT, "in maintenance"),
                (FDRAIN | IDRAIN, "drained"),
                (RMAINT | HMAINT, "off because its name is not resolved"),
            )
            if self.admin & bits
        ]
        said = f" ({self.last_check})" if self.last_check and not self.healthy else ""
        return f"{self.name} ({self.address}) is {' and '.join([health, *marks])}{said}"


@dataclass(frozen=True)
class Backend:
    """``cookie``: name of the cookie by which clients are kept at a server. ``elsewhere``: (backend, server, address)
    of all other backends."""

    name: str
    mode: str
    cookie: str
    servers: tuple[Server, ...]
    elsewhere: tuple[tuple[str, str, str], ...] = ()

    def server(self, name: str) -> Server | None:
        return next((server for server in self.servers if server.name == name), None)

    def receivers(self) -> frozenset[str]:
        """Names of the servers that would get a new request: those without ``backup``, then one with it."""
        active = [server.name for server in self.servers if server.usable and not server.backup]
        spare = [server.name for server in self.servers if server.usable and server.backup]
        return frozenset(active or spare)


def backends(states: str) -> list[str]:
    """Names of the backends in an answer to ``show servers state``, each once. Raises NotRead."""
    return list(dict.fromkeys(row["be_name"] for row in _states(states)))


def backend(name: str, states: str, stats: str) -> Backend | None:
    """The backend by the answers to ``show servers state`` and ``show stat``; None: there is none of that name.

    Raises NotRead for answers that are no such answers, or that do not tell of the same servers.
    """
    rows = list(_states(states))
    counted = {(row["pxname"], row["svname"]): row for row in _stats(stats)}
    whole = counted.get((name, "BACKEND"))
    if whole is None:
        return None
    servers = tuple(
        _server(row, counted.get((name, row["srv_name"]))) for row in rows if row["be_name"] == name
    )
    return Backend(
        name,
        whole.get("mode", ""),
        whole.get("cookie", ""),
        servers,
        tuple((row["be_name"], row["srv_name"], _address(row)) for row in rows if row["be_name"] != name),
    )


def _server(row: dict[str, str], counts: dict[str, str] | None) -> Server:
    if counts is None:
        raise NotRead(f"show servers state has a server {row['srv_name']!r}, and show stat has none")
    try:
        return Server(
            name=row["srv_name"],
            address=_address(row),
            op=int(row["srv_op_state"]),
            admin=int(row["srv_admin_state"]),
            check=bool(int(row["srv_check_state"]) & _CHECK_CONFIGURED),
            backup=counts["bck"] == "1",
            sessions=int(counts["stot"]),
            open=int(counts["scur"]),
            queued=int(counts["qcur"] or 0),
            last_check=" ".join(
                filter(None, (counts.get("check_status"), counts.get("check_code"), counts.get("last_chk")))
            ),
            tls=row.get("srv_use_ssl") == "1",
        )
    except (KeyError, ValueError) as error:
        raise NotRead(
            f"server {row['srv_name']!r} is told of in another way than expected: {error}"
        ) from error


def _address(row: dict[str, str]) -> str:
    return f"{row['srv_addr']}:{row['srv_port']}"


def _states(text: str) -> Iterator[dict[str, str]]:
    """Rows of ``show servers state``: a line with its version, a line of names, then a line for each server."""
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) < 2 or lines[0].strip() != "1" or not lines[1].startswith("# be_id "):
        raise NotRead(f"that is no answer to show servers state: {_start(text)}")
    names = lines[1][2:].split()
    for line in lines[2:]:
        values = line.split()
        if len(values) < len(names):
            raise NotRead(f"a line of show servers state is cut: {line[:80]!r}")
        yield dict(zip(names, values, strict=False))


def _stats(text: str) -> Iterator[dict[str, str]]:
    if not text.startswith("# pxname,svname,"):
        raise NotRead(f"that is no answer to show stat: {_start(text)}")
    yield from csv.DictReader(text[2:].strip().splitlines())


def _start(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return repr(lines[0][:120]) if lines else "nothing at all"


def number_of(info: str, name: str) -> int | None:
    """A number of ``show info``; None where it has none of that name."""
    for line in info.splitlines():
        key, _, value = line.partition(":")
        if key == name and value.strip().isdecimal():
            return int(value)
    return None
