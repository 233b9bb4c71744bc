"""The GPUs of a machine and what belongs to them: from sysfs, and where that is missing from lspci's text. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from checks.bdf import Bdf
from checks.snapshot import CouldNotLook, Section
from provision.data.chips import architecture_of_name
from provision.data.gpu_arch import Architecture, architecture
from provision.host import view
from provision.host.view import PciFunction
from provision.inspect import lspci
from provision.inspect.look import Look
from provision.inspect.lspci import Listed
from provision.inspect.texts import Texts

_ABSENT = Section("pci", "/sys/bus/pci/devices", None)
GPUS = ("0300", "0302")
SWITCHES = ("22a3", "1af1")
"""Device ids of NVSwitches (H100 and H200; A100), class 0680."""

BOARDS = ("2324", "2329", "2330", "2335", "20b0", "20b2", "20bd")
"""Device ids of SXM GPUs: H800, H20, H100 80GB, H200; A100 40GB and 80GB, A800 40GB (pci.ids 2026-10); others are told
by their name. Boards with eight of them have NVSwitches, those with four have none."""

NONE = "none"
"""Positively no driver, no group: unlike None, which is not known."""


@dataclass(frozen=True)
class Function:
    """A PCI function; what is None is not known. ``driver`` and ``group`` are ``none`` where there positively is none.
    ``seen`` is what sysfs said of it, None where only a listing names it. ``lost``: it does not answer on the bus."""

    bdf: Bdf
    pci_class: str | None
    class_name: str | None
    vendor: str | None
    device: str | None
    name: str | None
    driver: str | None
    group: str | None
    is_nvidia: bool
    seen: PciFunction | None = None
    modules: tuple[str, ...] = ()
    lost: bool = False

    @property
    def is_gpu(self) -> bool:
        return self.is_nvidia and self.pci_class in GPUS

    @property
    def is_switch(self) -> bool:
        return (
            self.is_nvidia
            and self.pci_class == "0680"
            and (self.device in SWITCHES or "NVSwitch" in (self.name or ""))
        )

    @property
    def sits_on_a_board(self) -> bool:
        """Is it a GPU whose board usually has NVSwitches?"""
        return self.is_gpu and (
            self.device in BOARDS or re.search(r"\b(?:SXM|HGX)", self.name or "") is not None
        )

    @property
    def is_bridge(self) -> bool:
        return self.pci_class == "0604"

    @property
    def on_vfio(self) -> bool:
        return self.driver is not None and ("vfio" in self.driver or self.driver == "pci-stub")

    @property
    def ids(self) -> str | None:
        return f"{self.vendor}:{self.device}" if self.vendor and self.device else None

    @property
    def slot(self) -> tuple[int, int, int]:
        return self.bdf.domain, self.bdf.bus, self.bdf.slot

    def as_pci(self) -> PciFunction:
        """For the decisions that ask about a function; an id that is not known is empty and takes part in nothing."""
        if self.seen is not None:
            return self.seen
        return PciFunction(
            self.bdf,
            f"0x{self.device}" if self.device else "",
            f"0x{self.pci_class}00" if self.pci_class else "",
            None if self.driver in (None, NONE) else self.driver,
            None if self.group in (None, NONE) else self.group,
            None,
            f"0x{self.vendor}" if self.vendor else (view.NVIDIA if self.is_nvidia else ""),
            "ffffffff" if self.lost else None,
        )


def architecture_of(gpu: Function) -> Architecture | None:
    """By its id; without one by the chip's name, as far as a listing has it."""
    if gpu.device:
        return architecture(gpu.device)
    return architecture_of_name(gpu.name) if gpu.name else None


def functions(look: Look, texts: Texts) -> tuple[Function, ...]:
    """All functions that are known, by address. Raises CouldNotLook when neither sysfs nor a listing is there."""
    listed = lspci.merge(
        [
            lspci.parse(output.text, tells_drivers=_tells_drivers(output.name))
            for output in texts.of("lspci")
            if output.code in (0, None)
        ]
    )
    try:
        seen = {function.bdf: function for function in view.group_functions(look.snapshot)}
    except (CouldNotLook, KeyError, ValueError) as error:
        if not listed:
            why = "no listing of lspci was recorded" if look.recorded else "lspci listed nothing"
            raise CouldNotLook(f"{error}, and {why}") from error
        seen = {}
    found = {bdf: _of_listing(one) for bdf, one in listed.items()}
    found |= {bdf: _of_sysfs(function, listed) for bdf, function in seen.items()}
    return tuple(found[bdf] for bdf in sorted(found))


def whole_bus(look: Look, found: tuple[Function, ...] | None) -> bool:
    """Was every function looked at? sysfs has all of NVIDIA's; a listing that was cut to one maker or slot has no
    others, and every machine has bridges of another maker."""
    if look.snapshot.sections.get(("pci", "/sys/bus/pci/devices"), _ABSENT).data is not None:
        return True
    return any(one.seen is None and not one.is_nvidia for one in found or ())


def _tells_drivers(name: str) -> bool:
    options = name.removeprefix("lspci").split("-d")[0]
    return name.startswith("lspci") and "k" in options


def _of_listing(one: Listed) -> Function:
    return Function(
        one.bdf,
        one.class_code,
        one.class_name,
        one.vendor,
        one.device,
        one.name or None,
        one.driver or (NONE if one.driver_told else None),
        one.group,
        one.is_nvidia,
        modules=one.modules,
        lost=one.lost,
    )


def _of_sysfs(function: PciFunction, listed: Mapping[Bdf, Listed]) -> Function:
    one = listed.get(function.bdf)
    return Function(
        function.bdf,
        function.pci_class.removeprefix("0x")[:4] or None,
        one.class_name if one else None,
        function.vendor.removeprefix("0x") or None,
        function.device.removeprefix("0x") or None,
        (one.name or None) if one else None,
        function.driver or NONE,
        function.group or NONE,
        function.is_nvidia,
        seen=function,
        modules=one.modules if one else (),
        lost=function.config == "ffffffff",
    )


def companions(gpu: Function, everything: tuple[Function, ...]) -> tuple[Function, ...]:
    """The other functions of its slot, and what else is in its IOMMU group."""
    return tuple(
        other
        for other in everything
        if other.bdf != gpu.bdf
        and (other.slot == gpu.slot or (gpu.group not in (None, NONE) and other.group == gpu.group))
    )
