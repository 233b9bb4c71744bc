"""Which GPUs were handed over to virtual machines, as the machine itself records it. Pure.

``provision assign`` changes this record and nothing of the inventory. While a GPU stands in it, every run takes it for
one that stays with virtual machines, and the guests that the inventory gives it to rest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from checks.bdf import Bdf
from checks.snapshot import CouldNotLook, Section, Snapshot
from provision.host import boot
from provision.spec import Guest, Machine

PATH = boot.ASSIGNED
SCHEMA = "kpro-assigned/1"

Assigned = Mapping[Bdf, str]
"""The GPUs that are with virtual machines, each with the run that handed it over."""


def read(snapshot: Snapshot) -> dict[Bdf, str]:
    """What the machine records. Raises CouldNotLook when the record is there and cannot be understood: a GPU of a
    virtual machine is never taken for one of ours."""
    if ("file", PATH) not in snapshot.sections:
        # Only a managed machine is asked; nobody hands over GPUs of another.
        return {}
    text = snapshot.text(PATH)
    if text is None:
        return {}
    try:
        document = json.loads(text)
        if document["schema"] != SCHEMA:
            raise ValueError(f"it does not say schema {SCHEMA}")
        return {Bdf.parse(bdf): str(entry["run"]) for bdf, entry in document["vm"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CouldNotLook(
            f"{PATH} is not readable ({error!r}): it says which GPUs virtual machines have"
        ) from error


def dump(assigned: Assigned) -> bytes:
    entries = {str(bdf): {"run": assigned[bdf]} for bdf in sorted(assigned)}
    return (json.dumps({"schema": SCHEMA, "vm": entries}, indent=1) + "\n").encode()


def with_record(snapshot: Snapshot, assigned: Assigned) -> Snapshot:
    """The same look at the machine, as if the record said this."""
    return replace(
        snapshot, sections={**snapshot.sections, ("file", PATH): Section("file", PATH, dump(assigned), None)}
    )


def without(machine: Machine, assigned: Assigned) -> Machine:
    """The machine of the inventory without the GPUs that are with virtual machines."""
    if not assigned:
        return machine
    gpus = tuple(gpu for gpu in machine.gpus if Bdf.parse(gpu.bdf) not in assigned)
    guests = tuple(_without(guest, assigned) for guest in machine.guests)
    return machine.model_copy(update={"gpus": gpus, "guests": guests})


def _without(guest: Guest, assigned: Assigned) -> Guest:
    kept = tuple(bdf for bdf in guest.gpus if Bdf.parse(bdf) not in assigned)
    return guest if kept == guest.gpus else guest.model_copy(update={"gpus": kept})


def resting(machine: Machine, assigned: Assigned) -> tuple[str, ...]:
    """The guests that lack a GPU which the inventory gives them. They rest as a whole: their services are sized for all
    of their GPUs. ``machine`` is that of the inventory."""
    return tuple(
        guest.name for guest in machine.guests if any(Bdf.parse(bdf) in assigned for bdf in guest.gpus)
    )
