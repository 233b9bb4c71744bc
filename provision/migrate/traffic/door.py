"""Where requests are led to is asked as what leads them asks: does the very service answer there, and generate?"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from urllib.parse import urlsplit

from provision.host.transport import Completed, TransportError
from provision.migrate import probe
from provision.migrate.probe import InGuest
from provision.migrate.traffic import same
from provision.migrate.traffic.asking import ask
from provision.migrate.traffic.messages import Address, Reply, Request
from provision.migrate.traffic.port import Door, TrafficError
from provision.migrate.traffic.same import Counters, Said
from provision.migrate.traffic.ways import Way

_METRICS = Request("/metrics")
_TOKENS = 8
_TRIES = 5
_READINGS = 8
_ALIKE = 3
"""Where two tokens are equally likely, the other requests of a batch decide."""

_PAUSE_S = 1.0
"""An engine may count a request a moment after it has answered it."""


@dataclass(frozen=True)
class Entrance:
    """A ``Door``: ``at``, as ``host`` reaches it by ``way``."""

    way: Way = field(repr=False)
    at: Address
    host: str
    name: str
    up: bool = True
    mend: str = ""

    def asked(self, *requests: Request) -> list[Reply]:
        """Raises TrafficError where the host could not ask."""
        try:
            return ask(self.way, self.at, requests)
        except TransportError as error:
            raise TrafficError(
                f"{self.name} could not be asked from {self.host}: {error}; what answers there is not known. Next: "
                "make it possible, or lead by hooks (docs/migration-traffic.md)"
            ) from error


def leads_to(door: Door, side: InGuest, key: str, sleep: Callable[[float], None] = time.sleep) -> str:
    """One sentence of what was proven: tokens came through the door, and from the side's own service. ``key`` goes to
    nobody whose counters, or whose answer without it, show that he is another one. Raises TrafficError."""
    own = _Own(side, key)
    before = own.counters()
    (page,) = door.asked(_METRICS)
    if page.kind in ("closed", "mute", "odd"):
        raise TrafficError(
            f"{door.name}, asked from {door.host}: {page.why}, so no request that is led there would be answered, "
            f"though {side.service.unit} is there. Next: {door.mend}"
        )
    there = same.counters(page)
    if before is not None and there is not None:
        after = own.counters()
        other = same.other_than(before, there, after) if after is not None else ""
        if after is None or ((other or not same.steady(before, after)) and not own.steady()):
            return _by_answers(door, side, own, None, sleep)
        if other:
            raise TrafficError(_foreign(door, side, f"its counters are of another process: {other}"))
        _generates(door, side, own, after, sleep)
        return (
            f"{door.name}, asked from {door.host}, is {side.service.name} on {side.name}: it generates there, by "
            "its own counters"
        )
    return _by_answers(door, side, own, before, sleep)


def _generates(
    door: Door, side: InGuest, own: _Own, before: Counters, sleep: Callable[[float], None]
) -> Said:
    """A token through the door that the service itself has counted."""
    said = same.said(door.asked(own.completion)[0])
    if said.why:
        raise TrafficError(_foreign(door, side, said.why))
    had = same.generated(before)
    if had is None:
        return said
    for _ in range(_TRIES):
        now = same.generated(own.counters())
        if now is None or now >= had + said.tokens:
            return said
        sleep(_PAUSE_S)
    raise TrafficError(
        _foreign(door, side, f"it made {said.tokens} token(s), and {side.service.unit} has not counted them")
    )


def _by_answers(
    door: Door, side: InGuest, own: _Own, before: Counters | None, sleep: Callable[[float], None]
) -> str:
    """Without counters at both places: what it generates is what the service does, greedily."""
    own.turns_away_alike(door)
    for _ in range(_ALIKE):
        said = _generates(door, side, own, before or {}, sleep)
        mine = own.said()
        if mine.why:
            raise TrafficError(f"{side.name}: {side.service.unit} was asked at its own address: {mine.why}")
        if mine.text == said.text:
            break
    else:
        raise TrafficError(
            _foreign(
                door, side, f"it goes on with {said.text[:40]!r}, and the service with {mine.text[:40]!r}"
            )
        )
    return (
        f"{door.name}, asked from {door.host}, generates what {side.service.name} on {side.name} does; it shows no "
        "counters, so a twin of it could not be told from it"
    )


def _foreign(door: Door, side: InGuest, seen: str) -> str:
    return (
        f"{door.name}, asked from {door.host}, is not {side.service.name} on {side.name}: {seen}. Clients that are led "
        f"there would be answered by something else, whatever its health check says. Next: {door.mend}"
    )


class _Own:
    """The service at its own address, asked in its guest."""

    def __init__(self, side: InGuest, key: str) -> None:
        self._side = side
        self._at = address(side)
        body = {
            "model": probe.served(side.service),
            "prompt": "1 2 3 4",
            "max_tokens": _TOKENS,
            "temperature": 0,
        }
        self.completion = Request("/v1/completions", body, key)

    def _asked(self, request: Request) -> Reply:
        return self._all([request])[0]

    def _all(self, requests: Sequence[Request]) -> list[Reply]:
        def way(script: str, stdin: bytes, seconds: float) -> Completed:
            return self._side.inside(script, stdin=stdin, timeout=seconds)

        try:
            return ask(way, self._at, requests)
        except TransportError as error:
            raise TrafficError(
                f"{self._side.name}: {self._side.service.unit} could not be asked at its own address: {error}"
            ) from error

    def counters(self) -> Counters | None:
        return same.counters(self._asked(_METRICS))

    def turns_away_alike(self, door: Door) -> None:
        """Who takes a request without the key otherwise than the service does is not shown it. Raises TrafficError."""
        if not self.completion.key:
            return
        bare = replace(self.completion, key="")
        (there,), mine = door.asked(bare), self._asked(bare)
        if (there.kind, there.status) != (mine.kind, mine.status):
            said = f"{there.words()} without a key, and of the service: {mine.words()}"
            raise TrafficError(_foreign(door, self._side, said))

    def steady(self) -> bool:
        """Do its readings fit each other? Not where each of several workers counts for itself."""
        found = [same.counters(reply) for reply in self._all([_METRICS] * _READINGS)]
        return all(
            one is not None and two is not None and same.steady(one, two) for one, two in pairwise(found)
        )

    def said(self) -> Said:
        return same.said(self._asked(self.completion))


def address(side: InGuest) -> Address:
    """Where the service answers in its own guest: what its last good start used, else what its inventory says."""
    service, url = side.service, ""
    if service.found is None:
        try:
            done = side.inside(f"cat {shlex.quote(f'/var/lib/kpro/good/{service.name}.url')} 2>/dev/null; :")
        except TransportError as error:
            raise TrafficError(f"{side.name}: its guest could not be asked: {error}") from error
        url = done.text.strip()
    return of_url(url or probe.address(service))


def of_url(url: str) -> Address:
    """Raises ValueError for what is no address of HTTP."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{url!r} is no http:// or https:// address")
    tls = "name" if parts.scheme == "https" else ""
    return Address(parts.hostname, parts.port or (443 if tls else 80), tls, parts.path.rstrip("/"))  # type: ignore[arg-type]


def foreign(door: Door, name: str) -> tuple[str, str]:
    """Of an address that is to lead to a service which is not there yet: why somebody else is there already, and what
    to note where that is not sure; both empty where nobody is. Raises TrafficError."""
    (page,) = door.asked(Request("/v1/models"))
    if page.kind == "closed":
        return "", ""
    if page.kind == "mute" or page.status in _GATEWAY:
        return "", (
            f"{door.name}, asked from {door.host}: {page.words()}, before {name} is there: something stands in between "
            "(a port forward?); whether it leads to the service is proven before the drain"
        )
    return f"{door.name}, asked from {door.host}: {page.words()}, and {name} does not run there yet", ""


_GATEWAY = (502, 503, 504)
"""What a proxy says that finds nobody behind it."""
