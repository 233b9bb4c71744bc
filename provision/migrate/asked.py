"""What ``provision migrate`` was asked for, and the two ends that are meant. Nothing is connected to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from provision import inventory as inventories
from provision.guest.mounts import mounts
from provision.migrate.ends import End, one_address
from provision.spec import Guest, Machine, Service


@dataclass(frozen=True)
class Asked:
    """What ``provision migrate`` was asked for. ``way``: ``begin``, ``resume``, ``rollback``, ``finalize`` or
    ``dry-run``. ``source_is_off``: the operator's word, for what of a dead source cannot be asked."""

    source: str
    target: str
    service: str | None
    way: str
    cold: bool
    models_from: str
    yes: bool
    as_json: bool
    reboot: bool
    remove_models: bool = False
    source_is_off: bool = False


def both_ends(ask: Asked) -> tuple[End, End, tuple[Path, Path]]:
    """Both ends of the one service that both inventories name. Raises InventoryRefused and ValueError."""
    loaded, wrong = [], []
    for word, here in ((ask.source, not ask.cold), (ask.target, True)):
        try:
            loaded.append(inventories.load(word, files=here, names=here))
        except inventories.InventoryRefused as error:
            wrong += [reason for reason in error.reasons if reason not in wrong]
    if wrong:
        raise inventories.InventoryRefused(wrong)
    for word, one in zip((ask.source, ask.target), loaded, strict=True):
        if len(one.machines) != 1:
            raise ValueError(
                f"{word} has {len(one.machines)} machines: a service moves between two, one in each"
            )
    machines = [one.machines[0] for one in loaded]
    if machines[0].name == machines[1].name:
        raise ValueError(f"{ask.source} and {ask.target} are both the machine {machines[0].name}")
    named = [
        {service.name: (guest, service) for guest in machine.guests for service in guest.services}
        for machine in machines
    ]
    both = sorted(named[0].keys() & named[1].keys())
    if ask.service is not None and ask.service not in both:
        raise ValueError(
            f"--service {ask.service}: both inventories must name it; both name {', '.join(both) or 'none'}"
        )
    if ask.service is None and len(both) != 1:
        there = ", ".join(both) or "none"
        raise ValueError(
            f"{ask.source} and {ask.target} both name {there}: "
            + ("say which with --service" if both else "write the service into the target's inventory too")
        )
    name = ask.service or both[0]
    ends = []
    for role, word, machine, services in zip(
        ("source", "target"), (ask.source, ask.target), machines, named, strict=True
    ):
        guest, service = services[name]
        if role == "target":
            machine = _alone(machine, guest, service)
            guest, service = next(
                (one, here) for one in machine.guests for here in one.services if here.name == name
            )
        ends.append(End(role, word, machine, guest, service))  # type: ignore[arg-type]
    if at := one_address(ends[0], ends[1]):
        raise ValueError(
            f"{ask.source} and {ask.target} are both reached at {at}: a service moves between two"
        )
    return ends[0], ends[1], (loaded[0].path, loaded[1].path)


def _alone(machine: Machine, guest: Guest, service: Service) -> Machine:
    """The machine with this service alone: a migration touches no other one, and tries no candidate."""
    left = service.model_copy(update={"candidate": None})
    guests = tuple(_with(machine, one, (left,) if one is guest else ()) for one in machine.guests)
    return machine.model_copy(update={"guests": guests})


def _with(machine: Machine, guest: Guest, services: tuple[Service, ...]) -> Guest:
    """The guest with these services, and with every folder that it has for the sake of those that are left out."""
    alone = guest.model_copy(update={"services": services})
    had = mounts(machine, guest)
    return alone if mounts(machine, alone) == had else alone.model_copy(update={"mounts": had})
