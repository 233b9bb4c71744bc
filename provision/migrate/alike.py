"""Are two ends so alike that a service must answer equally on both, to the last token? Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from provision.data import engines
from provision.spec import Guest, Machine, Service


class Specs(Protocol):
    """One end as its inventory has it; a side of a migration is one."""

    @property
    def machine(self) -> Machine: ...

    @property
    def guest(self) -> Guest: ...

    @property
    def service(self) -> Service: ...


def told(end: Specs) -> dict[str, Any]:
    """What decides whether two services must answer equally: the kind of GPUs, engine and version, and the
    tensor-parallel size."""
    return {"GPUs": list(gpus(end)), "engine": engine(end.service), "tensor-parallel size": ranks(end)}


def unlike(of: Mapping[str, Any], here: Specs) -> tuple[str, ...]:
    """Why answers that were taken ``of`` such an end (``told``) need not be equal on this one; empty: they must be."""
    now = told(here)
    return tuple(
        f"{what}: {_said(of.get(what))}, here {_said(value)}"
        for what, value in now.items()
        if of.get(what) != value
    )


def gpus(end: Specs) -> tuple[str, ...]:
    """The models of the guest's GPUs, one word for each; a GPU without a model is equal to none."""
    models = {gpu.bdf: gpu.model for gpu in end.machine.gpus}
    return tuple(sorted(models.get(bdf) or f"a GPU at {bdf}" for bdf in end.guest.gpus))


def engine(service: Service) -> str:
    return f"{service.engine.kind} {service.engine.version}"


def ranks(end: Specs) -> int:
    """As many as the flags say, else one for each GPU of the guest."""
    names = engines.kind_of(end.service.engine.kind).parallel_flags
    words = end.service.flags if end.service.found is None else end.service.found.command
    for at, word in enumerate(words):
        name, equals, value = word.partition("=")
        text = value if equals else "".join(words[at + 1 : at + 2])
        if name in names and text.isdecimal():
            return int(text)
    return max(1, len(end.guest.gpus))


def _said(value: object) -> str:
    return ", ".join(map(str, value)) or "none" if isinstance(value, list) else str(value)
