"""Where clients are led to, held against both ends: is it the very service that answers there?"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from provision.host import reachable
from provision.host.transport import TransportError
from provision.migrate.ends import Role
from provision.migrate.moving import Moving
from provision.migrate.seen import Looks, UnitLook
from provision.migrate.shown import Shown
from provision.migrate.sides import Side
from provision.migrate.standing import Record
from provision.migrate.traffic import door
from provision.migrate.traffic.port import WHERE, Known, Traffic, TrafficError
from provision.plan import Refusal
from provision.spec import HAProxy, Migration, Service

_ADDRESSES = "hostname -I 2>/dev/null; :"
_NAMED = (f"{WHERE}.source", f"{WHERE}.target", f"{WHERE}.backend", f"{WHERE}.socket")
"""Where a refusal stands after which there is nothing to ask."""


def prove(m: Moving, who: Role, *, led: bool = False) -> str:
    """One sentence of what answers where requests to ``who`` come to; empty where that is not known. ``led``: they go
    there now. Raises TrafficError where it is another process, or does not answer."""
    if m.traffic is None:
        return ""
    at = m.traffic.door(who, led=led)
    if at is None:
        return ""
    side = m.target if who == "target" else m.living()
    return door.leads_to(at, side, key_of(side.service, m.target.service))


def key_of(*services: Service) -> str:
    """The key of a service as the controller has it: both ends ask for one key. Empty: for none."""
    for service in services:
        if service.api_key_file is not None:
            with suppress(OSError, UnicodeDecodeError):
                return Path(service.api_key_file).read_text(encoding="utf-8").strip()
    return ""


def look(m: Moving, traffic: Traffic, shown: Shown) -> tuple[list[Refusal], list[str]]:
    """Everything of the traffic that speaks against the move, and what is told. Nothing is changed, and of the source a
    few tokens are asked for."""
    known = Known(
        {"source": m.peer, "target": m.target.name},
        {"source": _addresses(m, m.source), "target": _addresses(m, m.target)},
        {"source": shown.pair.source.service.port, "target": m.target.service.port},
        dict(_left(shown)),
    )
    refusals = traffic.check(cold=m.cold, known=known)
    notes = traffic.notes(known)
    if not any(one.where in _NAMED for one in refusals):
        for found in (_source(m, traffic, shown), _target(m, traffic, shown)):
            refusals += found[0]
            notes += found[1]
    return refusals, notes


def _source(m: Moving, traffic: Traffic, shown: Shown) -> tuple[list[Refusal], list[str]]:
    """Does the source's service answer where its clients are led to?"""
    guest = shown.source.guest if shown.source is not None else None
    if m.source is None or guest is None or guest.generates is not None:
        return [], []
    try:
        at = traffic.door("source", led=True)
        if at is None or not at.up:
            return [], []
        said = door.leads_to(at, m.source, key_of(m.source.service, m.target.service))
    except TrafficError as error:
        return [
            _refusal(
                "source",
                str(error),
                "what is drained there would not be what serves the clients now, and they would go on at the source",
            )
        ], []
    return [], [said] if "twin" in said else []


def _target(m: Moving, traffic: Traffic, shown: Shown) -> tuple[list[Refusal], list[str]]:
    """Does somebody answer already where the target's service is to?"""
    guest = shown.target.guest
    if guest is not None and isinstance(guest.unit, UnitLook) and guest.unit.active == "active":
        return [], []
    try:
        at = traffic.door("target", led=False)
        seen, note = door.foreign(at, m.target.service.name) if at is not None else ("", "")
    except TrafficError as error:
        return [_refusal("target", str(error), "clients could be led to anything")], []
    if not seen:
        return [], [note] if note else []
    why = "clients would be led to that, and not to the service"
    return [_refusal("target", f"{seen}. Next: {at.mend if at is not None else ''}", why)], []


def _refusal(role: Role, text: str, why: str) -> Refusal:
    seen, _, step = text.partition(". Next: ")
    return Refusal(f"{WHERE}.{role}", seen, why, step or "mend it, and run again")


def _addresses(m: Moving, side: Side | None) -> frozenset[str]:
    """Of machine and guest, as they say themselves and as the inventory does; of a dead one none."""
    if side is None:
        return frozenset()
    found: set[str] = set()
    for run in (side.host, side.inside):
        with suppress(TransportError):
            found |= set(run(_ADDRESSES).text.split())
    found |= {side.service.listen}
    if side.guest.proxmox is not None:
        found.add(side.guest.proxmox.ip.partition("/")[0])
    here = side.machine.ssh is None
    if side.machine.ssh is not None:
        with suppress(OSError, ValueError):
            host = reachable.door(side.machine.ssh).host
            found |= {str(row[4][0]) for row in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    spec = (m.target.service.migration or Migration()).traffic
    where = spec.on if isinstance(spec, HAProxy) else "controller"
    local = where == ("target" if side is m.target else "source") or (where == "controller" and here)
    return frozenset(one for one in found if _counts(one, local)) | (_LOOPBACK if local else frozenset())


_LOOPBACK = frozenset(("127.0.0.1", "::1"))
"""They mean the host that asks."""


def _counts(text: str, local: bool) -> bool:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    return not address.is_unspecified and (local or not address.is_loopback)


def _left(shown: Shown) -> Iterator[tuple[Role, str]]:
    """The machines from which kpro has moved this very service, and when."""
    ends: tuple[tuple[Role, Looks | None], ...] = (("source", shown.source), ("target", shown.target))
    name = shown.pair.target.service.name
    for role, seen in ends:
        records: object = seen.machine.migrations if seen is not None else None
        record = records.get(name) if isinstance(records, Mapping) else None
        if isinstance(record, Record) and record.role == "source" and record.state in ("moved", "finalized"):
            machine = shown.pair.source.name if role == "source" else shown.pair.target.name
            yield role, f"migration {record.run} of kpro moved {name} from {machine} to {record.peer}"
