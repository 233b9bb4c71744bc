"""What ``provision migrate`` was asked for, and the two ends that are meant. Nothing is connected to."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePath

from provision import inventory as inventories
from provision.guest.mounts import mounts
from provision.inventory import Inventory, InventoryRefused
from provision.inventory.controller_rules import Files
from provision.inventory.here import as_far_as_here
from provision.migrate.ends import End, Role, at_one
from provision.spec import Guest, Machine, Service

_ROLES: tuple[Role, Role] = ("source", "target")


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


def typed(ask: Asked, folder: str) -> tuple[str, ...]:
    """The words that name both ends on the command line, so that they mean the same from another folder than
    ``folder``: a bare word stays, a path becomes absolute; quoted for a shell where they need it."""
    named = [
        word if re.fullmatch(r"[\w-]+", word) else str(PurePath(folder, word))
        for word in (ask.source, ask.target)
    ]
    more = ("--service", ask.service) if ask.service is not None else ()
    return tuple(map(shlex.quote, (*named, *more)))


def both_ends(ask: Asked) -> tuple[End, End, tuple[Path, Path]]:
    """Both ends of the one service that both inventories name. Raises InventoryRefused and ValueError."""
    loaded = _loaded(ask)
    for word, one in zip((ask.source, ask.target), loaded, strict=True):
        if len(one.machines) != 1:
            raise ValueError(
                f"{word} has {len(one.machines)} machines: a service moves between two, one in each"
            )
    if same := _same(ask, loaded):
        raise ValueError(same)
    machines = [
        one.machines[0] if _forward(ask, role) else as_far_as_here(one.machines[0])
        for role, one in zip(_ROLES, loaded, strict=True)
    ]
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
    for role, word, machine, services in zip(_ROLES, (ask.source, ask.target), machines, named, strict=True):
        guest, service = services[name]
        if role == "target":
            machine = _alone(machine, guest, service)
            guest, service = next(
                (one, here) for one in machine.guests for here in one.services if here.name == name
            )
        ends.append(End(role, word, machine, guest, service))
    return ends[0], ends[1], (loaded[0].path, loaded[1].path)


def _forward(ask: Asked, role: Role) -> bool:
    """Is everything read that the inventory of this end names on the controller? A way back, and an end, need only what
    leads to the machines: a source that serves again helps, also where what leads its clients is not here. A run that
    goes on has to do with its target alone."""
    return ask.way in ("begin", "dry-run") or (ask.way == "resume" and role == "target")


def _loaded(ask: Asked) -> list[Inventory]:
    """Both inventories. Raises InventoryRefused with what is wrong in either, ValueError where they are of one machine:
    nothing else matters then."""
    loaded, wrong = [], []
    for role, word in zip(_ROLES, (ask.source, ask.target), strict=True):
        # A dead source is not asked, and on the way back a machine that is not reached is told as such.
        here = role == "target" or not ask.cold
        files: Files = "none" if not here else "all" if _forward(ask, role) else "reach"
        try:
            loaded.append(inventories.load(word, files=files, names=here and ask.way != "rollback"))
        except InventoryRefused as error:
            wrong += [reason for reason in _by_step(ask, word, error) if reason not in wrong]
    if not wrong:
        return loaded
    with suppress(InventoryRefused):
        bare = [inventories.load(word, files="none", names=False) for word in (ask.source, ask.target)]
        if same := _same(ask, bare):
            raise ValueError(same)
    raise InventoryRefused(wrong)


def _by_step(ask: Asked, word: str, error: InventoryRefused) -> list[str]:
    """The reasons; where a run is to go on, with the step that needs what is missing here."""
    if ask.way != "resume":
        return error.reasons
    others: list[str] = []
    try:
        inventories.load(word, files="way")
    except InventoryRefused as also:
        others = also.reasons
    missing = [reason for reason in error.reasons if reason not in others]
    told = [
        f"{reason}; the step configure needs it" if reason in missing else reason for reason in error.reasons
    ]
    return [*told, _WHY_FILES] if missing else told


_WHY_FILES = (
    "--resume holds configure against these files once more, at whatever step it was cut: bring them here, or run it "
    "where they are; --rollback and --finalize need none of them"
)


def _same(ask: Asked, loaded: Sequence[Inventory]) -> str:
    """Why these are not two machines; empty: they are."""
    if any(len(one.machines) != 1 for one in loaded):
        return ""
    one, two = (found.machines[0] for found in loaded)
    if one.name == two.name:
        return f"{ask.source} and {ask.target} are both the machine {one.name}: a service moves between two"
    if at := at_one(one, two):
        return f"{ask.source} and {ask.target} are both reached at {at}: a service moves between two"
    return ""


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
