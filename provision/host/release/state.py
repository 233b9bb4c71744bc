"""Which functions are to be released, which stay with virtual machines, and what is between. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from checks.bdf import Bdf
from checks.snapshot import Snapshot
from provision.host import assigned, view
from provision.host.moves import Function
from provision.host.release import configuration
from provision.host.release.configuration import Place
from provision.host.release.target import Target, nothing
from provision.host.view import PciFunction
from provision.spec import Machine

NATIVE = {"0x0403": "snd_hda_intel", "0x0c03": "xhci_hcd", "0x0c80": "nvidia-gpu"}
"""The kernel's own drivers of a GPU's companions, by class: sound, USB, the controller of its USB-C port."""


@dataclass(frozen=True)
class Hands:
    """In whose hands the NVIDIA functions of a machine are. ``gpus`` are the named ones that are there; ``ours`` all
    functions of their slots; ``kept`` those of GPUs that stay with virtual machines, ``assigned`` among them those that
    were handed over; ``others`` all that is not named and shares the bus with them."""

    gpus: tuple[PciFunction, ...]
    ours: tuple[PciFunction, ...]
    kept: tuple[PciFunction, ...]
    others: tuple[PciFunction, ...]
    places: tuple[Place, ...]
    assigned: tuple[PciFunction, ...] = ()

    @cached_property
    def target(self) -> Target:
        """What is to be released. Devices of other makers stay where something still takes functions afterwards."""
        alone = Target(self.ours, bool(self.kept))
        left = (holder for place in self.places for holder in place.left(alone))
        return replace(alone, others=any(holder.holds is not nothing for holder in left))

    @property
    def aside(self) -> tuple[Bdf, ...]:
        """What NVIDIA's driver must not take while it is loaded: everything that is not named and not on it."""
        return tuple(
            function.bdf
            for function in self.others
            if function.is_gpu and (function.driver != "nvidia" or function in self.kept)
        )

    def of(self, gpu: PciFunction) -> tuple[PciFunction, ...]:
        return tuple(function for function in self.ours if function.slot == gpu.slot)


def hands(machine: Machine, snapshot: Snapshot) -> Hands:
    """Raises CouldNotLook when the bus cannot be read."""
    functions = view.group_functions(snapshot)
    named = {Bdf.parse(gpu.bdf) for gpu in machine.gpus}
    gpus = tuple(function for function in functions if function.is_gpu and function.bdf in named)
    slots = {gpu.slot for gpu in gpus}
    ours = tuple(f for f in functions if f.is_nvidia and f.slot in slots and not f.is_of_the_bus)
    others = tuple(f for f in functions if f.slot not in slots and not f.is_bridge)
    places = configuration.places(snapshot)
    kept_slots = {f.slot for f in others if f.is_gpu and (f.on_vfio or _is_held(f, places))}
    kept_slots |= {f.slot for f in others if f.is_nvidia and f.on_vfio and _gpu_of(f, others)}
    handed = assigned.read(snapshot)
    given_slots = {f.slot for f in others if f.is_gpu and f.bdf in handed}
    kept = tuple(f for f in others if f.is_nvidia and f.slot in kept_slots | given_slots)
    given = tuple(f for f in kept if f.slot in given_slots)
    return Hands(gpus, ours, kept, others, places, given)


def _is_held(function: PciFunction, places: Sequence[Place]) -> bool:
    return any(holder.holds(function) for place in places for holder in place.holders)


def _gpu_of(function: PciFunction, others: Sequence[PciFunction]) -> bool:
    return any(other.is_gpu and other.slot == function.slot for other in others)


def moves(functions: Sequence[PciFunction]) -> tuple[Function, ...]:
    """What has to change hands so that no function is held back: off vfio-pci and nouveau, no override left."""
    found = []
    for function in functions:
        native = NATIVE.get(function.pci_class[:6])
        wrong = function.on_vfio or (function.is_gpu and function.driver not in (None, "nvidia"))
        if wrong:
            wanted = None if function.is_gpu else native
            found.append(Function(function.bdf, function.driver, wanted, function.group))
        elif function.override is not None:
            found.append(Function(function.bdf, function.driver, function.driver, function.group))
    return tuple(found)
