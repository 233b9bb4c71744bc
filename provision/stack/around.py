"""What a service takes from its place: read on the controller, and from the snapshots of the machine and the guest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from checks.snapshot import CouldNotLook, Snapshot
from provision.data import nccl
from provision.data.around import CONFIG, Around, read_config
from provision.guest.mounts import on_machine
from provision.spec import Guest, Machine, Model, Service

if TYPE_CHECKING:
    from provision.stack.desired import DesiredService


def on_controller(guest: Guest, service: Service, engine: str, machine: Machine | None) -> Around:
    """What is known before the machine is looked at."""
    cards: tuple[str, ...] = ()
    if machine is not None:
        models = {gpu.bdf: gpu.model for gpu in machine.gpus}
        cards = tuple(str(models.get(bdf)) for bdf in guest.gpus)
    return Around(
        gpus=len(guest.gpus),
        cards=cards,
        driver=machine.driver.version if machine is not None and machine.driver is not None else None,
        engine=engine,
        target=_here(service.model),
        drafter=_here(service.drafter),
    )


def _here(model: Model | None) -> Mapping[str, Any] | None:
    """The config in a folder of the controller."""
    if model is None or model.folder is None:
        return None
    try:
        return read_config((model.folder / CONFIG).read_bytes())
    except OSError:
        return None


def _wanted(service: Service, gpus: int) -> Iterable[Model]:
    """The models whose config is looked for on the machine: nothing on the controller says it."""
    for one in (service, service.promoted()):
        if one is not None and one.drafter is not None and one.drafter.folder is None:
            yield one.drafter
    if gpus > 1 and service.model.folder is None:
        yield service.model


def host_requests(machine: Machine) -> list[str]:
    """What the snapshot of the machine has to look at."""
    found = []
    for guest in machine.guests:
        for service in guest.services if guest.managed else ():
            places = [
                on_machine(machine, guest, model.directory) for model in _wanted(service, len(guest.gpus))
            ]
            found += [f"file:{place}/{CONFIG}" for place in places if place is not None]
        if guest.managed and guest.services and len(guest.gpus) > 1:
            found.append(nccl.PASSED_REQUEST)
    return found


def requests(guest: Guest, services: Sequence[DesiredService]) -> list[str]:
    """What the snapshot of a guest has to look at."""
    found = [
        f"file:{model.directory}/{CONFIG}"
        for desired in services
        for model in _wanted(desired.service, len(guest.gpus))
    ]
    return [*found, *(nccl.requests(guest.gpus) if services else ())]


def seen(
    machine: Machine, guest: Guest, desired: DesiredService, host: Snapshot, inside: Snapshot | None
) -> Around:
    """``desired.around`` with what the snapshots say. What could not be looked at stays unknown, and what rests on it
    open."""
    around = desired.around
    service = desired.service
    if around.drafter is None and service.drafter is not None:
        around = replace(around, drafter=_there(machine, guest, service.drafter, host, inside))
    if around.target is None and around.gpus > 1:
        around = replace(around, target=_there(machine, guest, service.model, host, inside))
    if around.gpus < 2:
        return around
    passed = nccl.passed(_output(host, nccl.PASSED))
    found = nccl.measured(_file(inside, nccl.FILE), _output(inside, nccl.SET), around.gpus)
    return replace(around, passed=passed, nccl=found.variables, said=found.said)


def _there(
    machine: Machine, guest: Guest, model: Model, host: Snapshot, inside: Snapshot | None
) -> Mapping[str, Any] | None:
    place = on_machine(machine, guest, model.directory)
    for by, path in ((host, place), (inside, model.directory)):
        if path is not None and (config := read_config(_file(by, f"{path}/{CONFIG}"))) is not None:
            return config
    return None


def _file(by: Snapshot | None, path: str) -> bytes | None:
    try:
        return by.data("file", path) if by is not None else None
    except CouldNotLook:
        return None


def _output(by: Snapshot | None, name: str) -> str | None:
    try:
        code, output = by.command(name) if by is not None else (1, "")
    except CouldNotLook:
        return None
    return output if code == 0 else None
