"""A machine as far as this controller has its files: for the ways that bring something back, or end it.

What only a run forward reads (wheels, model files, locks, patches, keys, records of the gate) is left out where it is
not as it has to be. What leads to the machine, and what leads its clients, stays: nothing goes back without it.
"""

from __future__ import annotations

from typing import Any

from provision.forms import Where
from provision.inventory import controller_rules
from provision.inventory.rules import GLIBC
from provision.spec import Guest, Machine, Service, Spec


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
    """The spec with the field at this place empty."""
    value = getattr(spec, str(where[0]))
    if isinstance(value, Spec):
        return spec.model_copy(update={str(where[0]): _without(value, where[1:])})
    return spec.model_copy(update={str(where[0]): () if isinstance(value, tuple) else None})
