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
from provision.inventory.rules import GLIBC
from provision.spec import Engine, Guest, Machine, Service, Spec

NO_KEY = Path(os.devnull)
"""Stands for the file of a key: the service asks for one, and this controller does not know it. A way back reads it
from the process that runs, or from what the machine kept."""


def as_far_as_here(machine: Machine) -> Machine:
    """The very same object where nothing is missing."""
    guests = tuple(map(_guest, machine.guests))
    same = all(one is other for one, other in zip(guests, machine.guests, strict=True))
    return machine if same else machine.model_copy(update={"guests": guests})


def _guest(guest: Guest) -> Guest:
    services = tuple(_service(one, guest) for one in guest.services)
    same = all(one is other for one, other in zip(services, guest.services, strict=True))
    return guest if same else guest.model_copy(update={"services": services})


def _service(service: Service, guest: Guest) -> Service:
    for where, _ in list(controller_rules.of_service(service, GLIBC[guest.suite])):
        if controller_rules.only_forward(where):
            service = _without(service, where)
    return service


def _without(spec: Any, where: Where) -> Any:
    """The spec without the file that the field at this place names."""
    name = str(where[0])
    value = getattr(spec, name)
    if isinstance(value, Engine):
        source = "index" if value.source == "wheel" else value.source
        value = value.model_copy(update={"source": source, "wheelhouse": None, "lock": None, "patches": ()})
    elif isinstance(value, Spec):
        value = _without(value, where[1:])
    else:
        value = NO_KEY if name == "api_key_file" else None
    return spec.model_copy(update={name: value})
