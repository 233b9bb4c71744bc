"""An exchange of the driver in a run: which guests sleep for it, and from when to when nothing may be left half-way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from checks.snapshot import Snapshot
from provision.host.swap import STOP, unfinished
from provision.plan import Item
from provision.spec import Machine


class Exchange:
    """What a session knows of it, for all its machines."""

    def __init__(self) -> None:
        self._asleep: dict[str, Snapshot | None] = {}
        self._over: set[str] = set()
        self._earlier: dict[str, tuple[str, ...]] = {}

    def saw(self, machine: Machine, host: Snapshot) -> None:
        """An earlier run that was cut in the middle of one is told by what it left on the machine."""
        self._earlier[machine.name] = unfinished(host)

    def stops(self, machine: Machine, item: Item, guests: Mapping[str, Snapshot | None]) -> None:
        """Right before a guest is stopped: its files stay as they were seen."""
        for guest in machine.guests:
            if item.kind == STOP and guest.name == item.subject:
                self._asleep[machine.guest_host_name(guest)] = guests.get(guest.name)

    def inside(self, guest_host: str) -> Snapshot | None:
        """The inside of a guest that this run stopped, as it was; None for any other."""
        return self._asleep.get(guest_host)

    def earlier(self, machine: Machine) -> tuple[str, ...]:
        """The runs that began it and did not end it."""
        return self._earlier.get(machine.name, ())

    def under_way(self, machine: Machine, changed: Sequence[Item]) -> bool:
        """Did this run stop guests for another driver, or go on where another one was cut, and is neither in service
        nor taken back yet?"""
        if machine.name in self._over:
            return False
        own = [item for item in changed if item.host == machine.host_name]
        return any(item.kind == STOP for item in own) or bool(own and self.earlier(machine))

    def over(self, machine: Machine) -> None:
        self._over.add(machine.name)
