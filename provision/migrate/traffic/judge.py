"""Whether an HAProxy can lead a migration, and whom it leads to. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from provision.migrate.ends import Role
from provision.migrate.traffic import place, runtime, taken
from provision.migrate.traffic.port import WHERE, Known, Seen
from provision.migrate.traffic.runtime import Backend, Server
from provision.plan import Refusal
from provision.spec_migration import HAProxy

_BESIDE = "a source that is not stopped and fenced goes on to answer beside the target"


def who(spec: HAProxy, be: Backend) -> Seen:
    """Who gets new requests, of the two. The rest of the backend does not count."""
    both = [server for name in (spec.source, spec.target) if (server := be.server(name))]
    told = "; ".join(server.words() for server in both)
    missing = [name for name in (spec.source, spec.target) if be.server(name) is None]
    if missing:
        return Seen("unknown", f"backend {be.name} has no server {' and no server '.join(missing)}; {told}")
    get = be.receivers() & {spec.source, spec.target}
    if get == {spec.source}:
        return Seen("source", told)
    if get == {spec.target}:
        return Seen("target", told)
    if not get:
        return Seen("nobody", told)
    return Seen("unknown", f"both would get requests: {told}")


@dataclass(frozen=True)
class Answers:
    """What the socket answered to ``show cli level``, ``show info``, ``show servers state`` and ``show stat``."""

    level: str
    info: str
    states: str
    stats: str


def answered(
    spec: HAProxy, host: str, said: Answers, *, begun: bool, cold: bool, known: Known | None = None
) -> list[Refusal]:
    """All that speaks against it, at once. Raises NotRead."""
    found = []
    if said.level.strip() != "admin":
        found.append(
            Refusal(
                f"{WHERE}.socket",
                f"{spec.socket} on {host} has the level {said.level.strip() or 'unknown'}",
                "only 'level admin' may set the state of a server",
                f"write in haproxy.cfg, global: 'stats socket {spec.socket} mode 600 level admin', and reload HAProxy",
            )
        )
    if (runtime.number_of(said.info, "Nbproc") or 1) > 1:
        found.append(
            Refusal(
                WHERE,
                f"HAProxy on {host} runs as several processes (nbproc)",
                "its socket is that of one of them, and the others would go on as before",
                "write nbthread instead of nbproc, and restart HAProxy",
            )
        )
    be = runtime.backend(spec.backend, said.states, said.stats)
    if be is not None:
        return found + list(_of_backend(spec, be, WHERE, begun=begun, cold=cold, known=known))
    has = ", ".join(runtime.backends(said.states)) or "none with servers"
    missing = Refusal(
        f"{WHERE}.backend",
        f"HAProxy on {host} has no backend {spec.backend!r}; it has {has}",
        "there is nothing to lead",
        "write the name of the backend that the service's clients come through",
    )
    return [*found, missing]


def no_socket(spec: HAProxy, host: str, seen: str) -> Refusal:
    return Refusal(
        f"{WHERE}.socket",
        f"{spec.socket} on {host}: {seen}",
        "requests are led through it",
        "is HAProxy running there? write the path of its 'stats socket … level admin' (haproxy.cfg, section global)",
    )


def not_read(spec: HAProxy, host: str, seen: str) -> Refusal:
    return Refusal(
        f"{WHERE}.socket",
        f"{spec.socket} on {host}: {seen}",
        "what is not understood is not led",
        "is it the stats socket of an HAProxy? use hooks for anything else (docs/migration-traffic.md)",
    )


def not_reached(host: str, seen: str) -> Refusal:
    return Refusal(
        WHERE,
        f"{host} could not be asked: {seen}",
        "requests are led by the HAProxy there",
        "make it reachable from this controller without a question (ssh -o BatchMode=yes)",
    )


def _of_backend(
    spec: HAProxy, be: Backend, where: str, *, begun: bool, cold: bool, known: Known | None
) -> Iterator[Refusal]:
    source, target = be.server(spec.source), be.server(spec.target)
    strayed = place.refused(spec, be, known) if known is not None else []
    yield from strayed
    yield from _names(spec, be, where)
    yield from _form(be, where)
    roles: tuple[tuple[Server | None, Role], ...] = ((source, "source"), (target, "target"))
    for server, role in roles:
        if server is not None:
            yield from taken.off(server, be, where, begun, taken.left(server, role, known))
    if source is not None and target is not None:
        yield from _lines(source, target, be, where)
        yield from _ways_around(source, target, be, where)
    if source is not None and cold:
        yield from _alive(source, be, where)
    # One that is taken off, or that is another host's, is told above.
    told = bool(strayed) or (source is not None and bool(source.admin & ~runtime.CMAINT))
    if source is not None and not begun and not cold and not source.healthy and not told:
        yield Refusal(
            where,
            source.words(),
            "its clients get no answer through this backend now, so a move could not be told from an outage",
            f"bring it up, or correct its health check in backend {be.name}; for a host that is dead: --cold",
        )


def living(spec: HAProxy, host: str, be: Backend | None) -> list[Refusal]:
    """Every sign of HAProxy that the source of a cold move still serves, or that it cannot tell."""
    server = be.server(spec.source) if be is not None else None
    if be is None or server is None:
        return [
            Refusal(
                WHERE,
                f"HAProxy on {host} has no server {spec.backend}/{spec.source}, so it cannot say whether that serves",
                _BESIDE,
                "write the server of the source into that backend again until the move is through",
            )
        ]
    return list(_alive(server, be, WHERE))


def _alive(source: Server, be: Backend, where: str) -> Iterator[Refusal]:
    if source.op:
        yield Refusal(
            where,
            f"{source.words()} in backend {be.name}: HAProxy does not see it dead",
            _BESIDE,
            f"switch its machine off, and wait until the health check of server {source.name} says that it is down",
        )
    if source.open or source.queued:
        yield Refusal(
            where,
            f"{source.open} request(s) are under way at {source.name} ({source.address}) in backend {be.name}, "
            f"{source.queued} wait for it",
            _BESIDE,
            f"wait until they end, or end them at the socket: shutdown sessions server {be.name}/{source.name}",
        )


def _names(spec: HAProxy, be: Backend, where: str) -> Iterator[Refusal]:
    there = ", ".join(server.name for server in be.servers) or "none"
    for role, name in (("source", spec.source), ("target", spec.target)):
        if be.server(name) is None:
            host = "the running service" if role == "source" else "the host that it moves to"
            yield Refusal(
                f"{where}.{role}",
                f"backend {be.name} has no server {name!r}; it has {there}",
                f"requests could not be led {'off' if role == 'source' else 'to'} it",
                f"write the right name, or add to haproxy.cfg, backend {be.name}: {line(name, role)} (ADDRESS is that "
                f"of {host}), and reload HAProxy",
            )


def line(name: str, role: str, address: str = "ADDRESS:PORT") -> str:
    """How a server is written in haproxy.cfg."""
    return f"'server {name} {address} check{' backup' if role == 'target' else ''}'"


def _form(be: Backend, where: str) -> Iterator[Refusal]:
    if be.mode != "http":
        yield Refusal(
            where,
            f"backend {be.name} has mode {be.mode or 'unknown'}",
            "requests inside one connection cannot be told apart: a client that keeps its connection would stay at the "
            "source after the switch",
            f"write 'mode http' into backend {be.name} and its frontend, and reload HAProxy",
        )
    if be.cookie:
        yield Refusal(
            where,
            f"backend {be.name} keeps clients at their server by the cookie {be.cookie}",
            "such a client goes on being sent to a server that is drained",
            f"take 'cookie {be.cookie} …' out of backend {be.name} and reload HAProxy",
        )


def _lines(source: Server, target: Server, be: Backend, where: str) -> Iterator[Refusal]:
    for server, role in ((source, "source"), (target, "target")):
        if not server.check:
            yield Refusal(
                where,
                f"server {server.name} of backend {be.name} has no health check",
                "a reload or restart of HAProxy forgets what was set at its socket, and would send requests to a "
                "server that does not serve any more, or not yet",
                _write(be, server, role),
            )
    if source.backup:
        yield Refusal(
            where,
            f"server {source.name} is written as 'backup'",
            "after a restart of HAProxy in the middle of the move both, or the wrong one, would get requests",
            f"take 'backup' out: {line(source.name, 'source', source.address)}, and reload HAProxy",
        )
    if not target.backup:
        yield Refusal(
            where,
            f"server {target.name} is not written as 'backup'",
            "once it is warm, a restart of HAProxy would give it half of the requests before anybody has proven it",
            _write(be, target, "target"),
        )
    others = [server.name for server in be.servers if server.name not in (source.name, target.name)]
    if others:
        yield Refusal(
            where,
            f"backend {be.name} has other servers too: {', '.join(others)}",
            "a server with 'backup' gets nothing while another one is up, so a switch would not send it anything",
            "give the service a backend of its own, with the source's and the target's server alone",
        )


def _write(be: Backend, server: Server, role: str) -> str:
    written = line(server.name, role, server.address)
    return f"write in haproxy.cfg, backend {be.name}: {written}, and reload HAProxy"


def _ways_around(source: Server, target: Server, be: Backend, where: str) -> Iterator[Refusal]:
    if source.address == target.address:
        yield Refusal(
            where,
            f"servers {source.name} and {target.name} have one address, {source.address}",
            "a switch would change nothing",
            f"write the address of the target's service in the line of server {target.name}, and reload HAProxy",
        )
    around = [f"{backend}/{name}" for backend, name, address in be.elsewhere if address == source.address]
    if around:
        yield Refusal(
            where,
            f"{source.address} is served through {', '.join(around)} too",
            f"requests that come that way would not be led with those of backend {be.name}, and would fail when the "
            "source stops",
            f"send them through backend {be.name}, and take the other server out",
        )
