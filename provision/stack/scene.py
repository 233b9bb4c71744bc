"""One service of a guest and what is known of it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from checks.snapshot import Snapshot
from provision.spec import Guest, Machine
from provision.stack import baselines, held
from provision.stack.desired import DesiredService
from provision.stack.held import Held


@dataclass(frozen=True)
class Scene:
    """One service of a guest and what is known of it. ``inside`` and ``held``: None while the guest cannot be entered;
    ``where``: the path of its field."""

    machine: Machine
    guest: Guest
    own: DesiredService
    host: Snapshot
    inside: Snapshot | None
    held: Held | None
    where: str

    @property
    def guest_host(self) -> str:
        return self.machine.guest_host_name(self.guest)

    def field(self, desired: DesiredService) -> str:
        """The path of the field that says so."""
        return self.where if desired is self.own else f"{self.where}.candidate"

    def key(self, desired: DesiredService) -> str:
        return baselines.belongs(self.machine, self.guest, desired).key

    def path(self, desired: DesiredService) -> str:
        return baselines.path(self.own.name, self.key(desired))


def scene(
    machine: Machine,
    guest: Guest,
    own: DesiredService,
    host: Snapshot,
    inside: Snapshot | None,
    where: str,
) -> Scene:
    """Raises CouldNotLook."""
    seen = held.held(own, inside) if inside is not None else None
    return Scene(machine, guest, own, host, inside, seen, where)
