"""A server that is taken off: by what, by whom, and how it comes back. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from provision.migrate.ends import Role
from provision.migrate.traffic import place, runtime
from provision.migrate.traffic.port import Known
from provision.migrate.traffic.runtime import Backend, Server
from provision.plan import Refusal

_FOREIGN = "somebody set that, and kpro takes away nothing that it has not set"


def left(server: Server, role: Role, known: Known | None) -> str:
    """Which earlier move of kpro has drained it, in a sentence; empty where none is known."""
    return known.left.get(place.owner(server, role, known), "") if known is not None else ""


def off(server: Server, be: Backend, where: str, begun: bool, left: str) -> Iterator[Refusal]:
    """Every reason why it gets no requests. ``left``: why it is kpro that has drained it, once."""
    name = server.name
    ready = f"at the socket: set server {be.name}/{name} state ready"
    if server.admin & runtime.FMAINT and server.admin & runtime.CMAINT:
        yield Refusal(
            where,
            f"server {name} is written with the word 'disabled'",
            "it would be off again after each restart of HAProxy",
            f"take 'disabled' out of the line of server {name} in haproxy.cfg and reload HAProxy",
        )
    elif server.admin & runtime.FMAINT:
        yield Refusal(where, server.words(), _FOREIGN, f"ask who did it; then, {ready}")
    elif server.admin & runtime.FDRAIN and not begun and left:
        yield Refusal(
            where,
            server.words(),
            f"{left}, and drained it for that; what a move sets is to be told from what an earlier one has left",
            f"reload HAProxy with the lines that this move needs (that forgets the drain); or, {ready}",
        )
    elif server.admin & runtime.FDRAIN and not begun:
        yield Refusal(
            where, server.words(), _FOREIGN, f"ask who did it, or which migration left it; then, {ready}"
        )
    if server.admin & (runtime.IMAINT | runtime.IDRAIN):
        yield Refusal(
            where,
            f"server {name} follows another server ('track'), which is off",
            "it cannot be led by itself",
            f"give server {name} a 'check' of its own instead of 'track', and reload HAProxy",
        )
    if server.admin & (runtime.RMAINT | runtime.HMAINT):
        yield Refusal(
            where,
            server.words(),
            "HAProxy does not know where to send its requests",
            f"write an address, or mend the name service of HAProxy's host, for server {name}",
        )
