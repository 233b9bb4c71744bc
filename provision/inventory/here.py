"""A machine as far as this controller has its files: for the ways that bring something back, or end it.

What only a run forward reads (wheels, model files, locks, patches, keys, records of the gate) is left out where it is
not as it has to be. What leads to the machine, and what leads its clients, stays: nothing goes back without it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from provision.forms import Where
from provision.inventory import controller_rules
from provision.inventory.reading import dotted
from provision.inventory.rules import GLIBC, models_of
from provision.spec import Engine, Guest, Machine, Model, Service, Spec

NO_KEY = Path(os.devnull)
"""Stands for the file of a key: the service asks for one, and this controller does not know it. A way back reads it
from the process that runs, or from what the machine kept."""


def as_far_as_here(machine: Machine) -> Machine:
    """The very same object where nothing is missing."""
    guests = tuple(map(_guest, machine.guests))
    same = all(one is other for one, other in zip(guests, machine.guests, strict=True))
    hub = machine.hub if not _of_hub(machine) else machine.hub.model_copy(update={"token_file": None})
    if same and hub is machine.hub:
        return machine
    return machine.model_copy(update={"guests": guests, "hub": hub})


def lacking(machine: Machine) -> dict[str, tuple[str, ...]]:
    """What this controller lacks of it, by the name of the guest that cannot be judged without: each with its field."""
    found = {}
    for guest in machine.guests:
        wrong = [
            f"services[{index}]{dotted(where)}: {text}"
            for index, service in enumerate(guest.services)
            for where, text in _of_service(service, guest)
        ]
        if any(model.origin == "hub" for service in guest.services for model, _ in models_of(service)):
            wrong += [f"the machine's hub{dotted(where)}: {text}" for where, text in _of_hub(machine)]
        if wrong and guest.managed:
            found[guest.name] = tuple(wrong)
    return found


def _guest(guest: Guest) -> Guest:
    services = tuple(_service(one, guest) for one in guest.services)
    same = all(one is other for one, other in zip(services, guest.services, strict=True))
    return guest if same else guest.model_copy(update={"services": services})


def _service(service: Service, guest: Guest) -> Service:
    for where, _ in _of_service(service, guest):
        service = _without(service, where)
    return service


def _of_service(service: Service, guest: Guest) -> list[tuple[Where, str]]:
    wrong = controller_rules.of_service(service, GLIBC[guest.suite])
    return [row for row in wrong if controller_rules.only_forward(row[0])]


def _of_hub(machine: Machine) -> list[tuple[Where, str]]:
    return list(controller_rules.of_part(machine.hub))


def _without(spec: Any, where: Where) -> Any:
    """The spec without the file that the field at this place names."""
    name = str(where[0])
    value = getattr(spec, name)
    if isinstance(value, Engine):
        source = "index" if value.source == "wheel" else value.source
        value = value.model_copy(update={"source": source, "wheelhouse": None, "lock": None, "patches": ()})
    elif isinstance(value, Model) and where[1] == "folder":
        # Without the folder its files are only those that lie on the machine.
        value = value.model_copy(update={"source": None, "folder": None})
    elif isinstance(value, Spec):
        value = _without(value, where[1:])
    else:
        value = NO_KEY if name == "api_key_file" else None
    return spec.model_copy(update={name: value})
