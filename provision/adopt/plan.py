"""A guest that somebody else made: is it, and are its services, still what the inventory says? Pure.

Nothing is planned for it. What is other than written is refused with both readings: a move or a comparison that rests
on an inventory of yesterday would be one of something else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from checks.snapshot import CouldNotLook, Snapshot
from provision.adopt import models, process, words
from provision.adopt.process import Process
from provision.host import view
from provision.plan import Plan, Refusal, make_seen
from provision.spec import Guest, Machine, Service

_NEXT = "correct the inventory, or write it anew: provision init"


def requests(guest: Guest) -> list[str]:
    """What the snapshot of the guest has to look at."""
    wanted = list(process.REQUESTS)
    for service in guest.services:
        folder = service.found.model if service.found else None
        if folder is not None:
            wanted += models.folder_requests(folder)
    return [*wanted, *process.unit_requests(s.found.unit for s in guest.services if s.found)]


def adopted_plan(machine: Machine, guest: Guest, host: Snapshot, inside: Snapshot | None) -> Plan:
    """No items; refusals where the guest or a service is other than written. ``inside`` None: it does not run."""
    where = f"machine.guests[{machine.guests.index(guest)}]"
    refusals: list[Refusal] = []
    try:
        state = view.guest_state(host, guest)
        if state != "running" or inside is None:
            refusals.append(
                Refusal(
                    f"{where}.id",
                    f"container {guest.id} is {state}",
                    "it is somebody else's (managed=False), so it is not started here, and its services cannot be seen",
                    "start it, or take it out of the inventory",
                )
            )
        else:
            refusals += _services(guest, inside, where)
    except CouldNotLook as error:
        next_step = make_seen(error) if "recorded tree" in str(error) else _NEXT
        refusals.append(
            Refusal(where, str(error), "what could not be looked at is never taken for as it was", next_step)
        )
    note = f"{guest.name} is somebody else's container (managed=False): compared, never changed"
    return Plan(machine.name, (), tuple(refusals), (note,))


def _services(guest: Guest, inside: Snapshot, where: str) -> Iterator[Refusal]:
    there = process.processes(inside)
    for index, service in enumerate(guest.services):
        for field, seen in differences(service, there, inside):
            yield Refusal(
                f"{where}.services[{index}]{field}",
                seen,
                "the service is no longer the one that was written down",
                _NEXT,
            )


def differences(service: Service, there: Sequence[Process], inside: Snapshot) -> Iterator[tuple[str, str]]:
    """Fields of a service and what was seen instead. Raises CouldNotLook."""
    found = service.found
    if found is None:
        return
    unit = process.unit(inside, found.unit)
    if unit is None or unit.state != "active":
        yield ".found.unit", f"{found.unit} is {unit.state if unit else 'not there'}"
        return
    running = main_process(found.unit, there)
    if running is None:
        yield ".found.unit", f"{found.unit} is active, and none of its processes is an engine's server"
        return
    if running.words != found.command:
        yield ".found.command", f"it runs as: {' '.join(running.words)}"
    install = running.install(words.distributions(service.engine.kind.removesuffix("-cpu")))
    if install is None:
        yield ".engine", f"no installed {service.engine.kind} lies beside {running.words[0]}"
    elif install[0] != service.engine.version:
        yield ".engine.version", f"{service.engine.kind} {install[0]} is installed in {install[2]}"
    if service.port not in view.listeners(inside):
        yield ".port", f"nothing listens on port {service.port}"
    if found.model is not None:
        there_now = models.identity_of_folder(found.model, inside)
        if there_now.revision != service.model.revision:
            yield ".model.revision", f"{found.model} holds {there_now.repo} {there_now.revision}"


def main_process(unit: str, there: Sequence[Process]) -> Process | None:
    """The server of a unit: the first of its processes whose words start one."""
    return next((one for one in there if one.unit == unit and words.started(one.words) is not None), None)
