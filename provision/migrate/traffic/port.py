"""What a migration asks of whatever stands before the service. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from provision.migrate.ends import Role
from provision.migrate.traffic.messages import Reply, Request
from provision.plan import Refusal
from provision.run.errors import ActFailed

Who = Literal["source", "target", "nobody", "unknown"]
WHERE = "migration.traffic"
"""Where a refusal of the traffic stands: the field of the inventory."""


@dataclass(frozen=True)
class Seen:
    """Who gets new requests, as it was looked at, and that in one sentence. Where it cannot be told, or both get
    some, it is "unknown", which proves nothing."""

    who: Who
    said: str


@dataclass(frozen=True)
class Known:
    """What is known of both ends, by their role: the machine's ``names``, the ``addresses`` of machine and guest, the
    service's own ``ports``. ``left``: what an earlier migration of the service has done to the server of a machine, in
    a sentence; it is over."""

    names: Mapping[Role, str]
    addresses: Mapping[Role, frozenset[str]]
    ports: Mapping[Role, int]
    left: Mapping[Role, str] = field(default_factory=dict)


class TrafficError(ActFailed):
    """Requests were not led where they were to go; the message says what was seen and the next step."""


class Door(Protocol):
    """Where requests are led to, to be asked as what leads them asks."""

    @property
    def name(self) -> str:
        """What the operator calls it, with its address."""

    @property
    def host(self) -> str:
        """From where it is asked."""

    @property
    def up(self) -> bool:
        """Does what leads the requests take it for healthy?"""

    @property
    def mend(self) -> str:
        """What to correct where somebody else answers there."""

    def asked(self, *requests: Request) -> list[Reply]:
        """Raises TrafficError where the host could not ask."""


class Traffic(Protocol):
    """Every verb looks first, does nothing where it is so already, and proves by looking again before its deadline.

    All of them raise TrafficError. None touches what somebody else has set.
    """

    @property
    def name(self) -> str:
        """What it is, and where."""

    def check(self, *, begun: bool = False, cold: bool = False, known: Known | None = None) -> list[Refusal]:
        """All that stands against leading requests here; changes nothing.

        ``begun``: the migration has set something here already. ``cold``: the source serves no more;
        what shows that it does is refused (``lives``). ``known``: of the two ends, where that was looked at.
        """

    def notes(self, known: Known) -> list[str]:
        """What is odd about where requests are led, and may be meant so. Raises nothing."""

    def door(self, who: Role, *, led: bool) -> Door | None:
        """Where requests to ``who`` come to, to be asked; None: that is not known here. ``led``: they go there now.
        Raises TrafficError."""

    def lives(self) -> list[Refusal]:
        """Every sign here that the source of a cold move still serves, or that this cannot be told. Raises nothing."""

    def hold(self) -> Seen:
        """Nothing goes to the target, even when it becomes healthy."""

    def drain(self) -> Seen:
        """New requests go no more to the source, and not to the target yet; those in flight go on."""

    def switch(self) -> Seen:
        """New requests go to the target, which was seen healthy from here."""

    def back(self) -> Seen:
        """New requests go to the source as soon as it is healthy, and none to the target."""

    def release(self) -> Seen:
        """What ``hold`` has set is taken away; for a target that is stopped again."""

    def state(self) -> Seen:
        """Who gets new requests now. Raises nothing: what cannot be looked at is "unknown"."""

    def settled(self, who: Who, seconds: float) -> Seen:
        """Looks until ``state`` says so. Raises TrafficError when it does not in time."""

    def afterwards(self) -> tuple[str, ...]:
        """What is left to the operator once the source is given up for good."""
