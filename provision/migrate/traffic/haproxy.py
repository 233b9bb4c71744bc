"""An HAProxy that leads a migration, through its runtime API.

Only the state "drain" is set, never "maint": a drained server is still checked, so that its health is known before
requests go to it, and what is in maintenance is always somebody else's.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NoReturn

from provision.host.transport import TransportError
from provision.migrate.ends import Role
from provision.migrate.traffic import judge, place, runtime
from provision.migrate.traffic.door import Entrance
from provision.migrate.traffic.judge import Answers
from provision.migrate.traffic.messages import Address
from provision.migrate.traffic.port import Door, Known, Seen, TrafficError, Who
from provision.migrate.traffic.runtime import CMAINT, FDRAIN, Backend, NotRead, Server
from provision.migrate.traffic.stats_socket import NoSocket, ask
from provision.migrate.traffic.ways import Way
from provision.plan import Refusal
from provision.spec_migration import HAProxy

_PAUSE_S = 0.5
_QUIET_S = 1.0
"""So long no request may come to a server that is said to get none."""


@dataclass(frozen=True)
class Proxy:
    """A ``Traffic``. ``host``: how the host of the socket is called."""

    spec: HAProxy
    way: Way
    host: str
    clock: Callable[[], float] = field(default=time.monotonic, repr=False)
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)

    @property
    def name(self) -> str:
        return f"HAProxy on {self.host} ({self.spec.socket})"

    def check(self, *, begun: bool = False, cold: bool = False, known: Known | None = None) -> list[Refusal]:
        questions = ["show cli level", "show info", "show servers state", "show stat"]
        try:
            answers = Answers(*ask(self.way, self.spec.socket, questions))
            return judge.answered(self.spec, self.host, answers, begun=begun, cold=cold, known=known)
        except NoSocket as error:
            return [judge.no_socket(self.spec, self.host, str(error))]
        except NotRead as error:
            return [judge.not_read(self.spec, self.host, str(error))]
        except TransportError as error:
            return [judge.not_reached(self.host, str(error))]

    def notes(self, known: Known) -> list[str]:
        try:
            return list(place.notes(self.spec, self._backend(), known))
        except TrafficError:
            return []

    def door(self, who: Role, *, led: bool) -> Door:
        name = self.spec.source if who == "source" else self.spec.target
        server = self._server(self._backend(), name)
        return Entrance(
            self.way,
            Address(server.host, server.port, "any" if server.tls else ""),
            self.host,
            f"server {name} ({server.address}) of backend {self.spec.backend}",
            server.healthy,
            f"write address and port of the {who}'s service in the line of server {name} in haproxy.cfg, and reload "
            "HAProxy",
        )

    def lives(self) -> list[Refusal]:
        try:
            states, stats = ask(self.way, self.spec.socket, ["show servers state", "show stat"])
            return judge.living(self.spec, self.host, runtime.backend(self.spec.backend, states, stats))
        except NoSocket as error:
            return [judge.no_socket(self.spec, self.host, str(error))]
        except NotRead as error:
            return [judge.not_read(self.spec, self.host, str(error))]
        except TransportError as error:
            return [judge.not_reached(self.host, str(error))]

    def hold(self) -> Seen:
        self._set(self.spec.target, "drain")
        return self._look_until(
            lambda be: self._server(be, self.spec.target).drained, f"{self.spec.target} is drained"
        )

    def drain(self) -> Seen:
        """The target is seen healthy first: nobody is led off before there is somewhere to lead to."""
        self._ours(self.spec.source)
        self.hold()
        self._healthy(self.spec.target)
        self._set(self.spec.source, "drain")
        seen = self._look_until(lambda be: judge.who(self.spec, be).who == "nobody", "nobody gets requests")
        return self._quiet(self.spec.source, seen)

    def switch(self) -> Seen:
        be = self._backend()
        if judge.who(self.spec, be).who != "target" or self._server(be, self.spec.target).admin & ~CMAINT:
            self._ours(self.spec.target)
            self._healthy(self.spec.target)
            self._set(self.spec.source, "drain")
            self._set(self.spec.target, "ready")
        seen = self.settled("target", self.spec.deadline_seconds)
        return self._quiet(self.spec.source, seen)

    def back(self) -> Seen:
        """The source first: it takes all requests from a target that is ``backup``, so that none finds nobody. A target
        that somebody else has taken off gets nothing as it is, and keeps nobody from going back."""
        spec = self.spec
        self._set(spec.source, "ready")
        if not self._server(self._backend(), spec.target).admin & ~CMAINT:
            self._set(spec.target, "drain")
        return self._look_until(
            lambda be: (
                bool(self._server(be, spec.target).admin & ~CMAINT)
                and not self._server(be, spec.source).admin & ~CMAINT
            ),
            f"{spec.source} is ready and {spec.target} is drained",
        )

    def release(self) -> Seen:
        be = self._backend()
        source, target = self._server(be, self.spec.source), self._server(be, self.spec.target)
        if target.healthy and not (target.backup and source.usable):
            raise TrafficError(
                f"{self.name}: {target.words()}, and {source.words()}: without its drain {target.name} would get "
                "requests. Next: stop the service on the target, or bring the source up, and run again"
            )
        self._set(target.name, "ready")
        return self._look_until(
            lambda be: not self._server(be, target.name).admin & ~CMAINT, f"{target.name} is ready"
        )

    def state(self) -> Seen:
        try:
            return judge.who(self.spec, self._backend())
        except TrafficError as error:
            return Seen("unknown", str(error))

    def settled(self, who: Who, seconds: float) -> Seen:
        return self._look_until(
            lambda be: judge.who(self.spec, be).who == who, f"{who} gets the requests", seconds
        )

    def afterwards(self) -> tuple[str, ...]:
        spec = self.spec
        found = [
            f"in haproxy.cfg on {self.host}, backend {spec.backend}: remove the line of server {spec.source}, and the "
            f"word 'backup' from the line of server {spec.target}; then reload HAProxy"
        ]
        with suppress(TrafficError):
            if (source := self._backend().server(spec.source)) is not None and source.admin & FDRAIN:
                found.append(
                    f"server {spec.backend}/{spec.source} is still drained: kpro did that for the move, and the reload "
                    "forgets it; where its line is to stay, at the socket, once something serves there again: set "
                    f"server {spec.backend}/{spec.source} state ready"
                )
        return tuple(found)

    def _backend(self) -> Backend:
        try:
            states, stats = ask(self.way, self.spec.socket, ["show servers state", "show stat"])
            be = runtime.backend(self.spec.backend, states, stats)
        except (OSError, NotRead) as error:
            self._stop(f"it could not be asked: {error}", "bring HAProxy and its socket up")
        if be is None:
            self._stop(f"it has no backend {self.spec.backend}", "write it into haproxy.cfg again")
        return be

    def _server(self, be: Backend, name: str) -> Server:
        server = be.server(name)
        if server is None:
            self._stop(f"backend {be.name} has no server {name}", "write it into haproxy.cfg again")
        return server

    def _set(self, name: str, state: str) -> None:
        """Looks first. Raises TrafficError for a server that somebody else has taken off."""
        server = self._ours(name)
        if bool(server.admin & FDRAIN) is (state == "drain"):
            return
        try:
            (said,) = ask(
                self.way, self.spec.socket, [f"set server {self.spec.backend}/{name} state {state}"]
            )
        except OSError as error:
            self._stop(
                f"it could not be told that {name} is {state}: {error}", "bring HAProxy and its socket up"
            )
        if said.strip():
            self._stop(
                f"it refused that {name} be {state}: {said.strip()}", "use a socket with 'level admin'"
            )

    def _ours(self, name: str) -> Server:
        server = self._server(self._backend(), name)
        if server.admin & ~(CMAINT | FDRAIN):
            self._stop(
                f"{server.words()}: somebody else did that, and it is left as it is",
                f"set server {self.spec.backend}/{name} state ready, at the socket, by whoever did it",
            )
        return server

    def _healthy(self, name: str) -> None:
        self._look_until(lambda be: self._server(be, name).healthy, f"{name} passes its health check")

    def _quiet(self, name: str, seen: Seen) -> Seen:
        """No request has come to the server for a while: clients that something keeps at it would show here."""
        until = self.clock() + self.spec.deadline_seconds
        since, last = self.clock(), self._server(self._backend(), name)
        first = last
        while self.clock() - since < _QUIET_S:
            self.sleep(_PAUSE_S)
            now = self._server(self._backend(), name)
            if now.sessions == last.sessions and not now.queued:
                last = now
                continue
            since, last = self.clock(), now
            if since > until:
                self._stop(
                    f"{now.sessions - first.sessions} request(s) came to {name} within {self.spec.deadline_seconds} s "
                    f"after it was drained, {now.queued} wait for it: something keeps clients at it",
                    f"take 'stick on …', 'use-server' or 'force-persist' out of backend {self.spec.backend}",
                )
        still = f"; {last.open} request(s) are still under way at {name}" if last.open else ""
        return Seen(seen.who, seen.said + still)

    def _look_until(
        self, settled: Callable[[Backend], bool], wanted: str, seconds: float | None = None
    ) -> Seen:
        allowed = self.spec.deadline_seconds if seconds is None else seconds
        until = self.clock() + allowed
        while True:
            be = self._backend()
            seen = judge.who(self.spec, be)
            if settled(be):
                return seen
            if self.clock() >= until:
                self._stop(
                    f"after {allowed:g} s it is not so that {wanted}: {seen.said}",
                    f"look at backend {self.spec.backend} (show stat), and at the health checks of its servers",
                )
            self.sleep(_PAUSE_S)

    def _stop(self, seen: str, next_step: str) -> NoReturn:
        raise TrafficError(f"{self.name}, backend {self.spec.backend}: {seen}. Next: {next_step}")
