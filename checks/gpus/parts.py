"""The parts of an NVML dump: the Gap that stands for what is missing, a process, a violation, a pair of GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from checks.bdf import Bdf

NOT_SUPPORTED, NO_PERMISSION, DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND = 3, 4, 9, 12
FUNCTION_NOT_FOUND, GPU_IS_LOST, MISMATCH, UNKNOWN_ERROR = 13, 15, 18, 999
INVALID_ARGUMENT, WRONG_VERSION, DEPRECATED = 2, 25, 26
TIMEOUT, DIED, NOT_ASKED = "Timeout", "ChildDied", "NotAsked"
"""Words of the collector: its child was abandoned, ended too early, was not asked that any more."""
CUT = "TextIsCut"
"""Word of the readers of texts: there was more of it."""


@dataclass(frozen=True)
class Gap:
    """Why there is no value: NVML's code, or a word of the collector, and the text that came with it."""

    code: int | str | None
    text: str = ""

    @property
    def absent(self) -> bool:
        """This hardware or driver cannot have the thing: a skip. An older driver knows no such function or form of a
        struct (FunctionNotFound, ArgumentVersionMismatch), a newer one has given the call up (Deprecated)."""
        return self.code in (NOT_SUPPORTED, FUNCTION_NOT_FOUND, WRONG_VERSION, DEPRECATED, "NOFUNC")

    @property
    def unnumbered(self) -> Gap:
        """The same of a call that takes the number of a link or field: an argument that is refused is a number that
        this GPU or driver does not have."""
        return Gap(NOT_SUPPORTED, self.text or "no such number") if self.code == INVALID_ARGUMENT else self

    def __str__(self) -> str:
        return f"{self.text or 'no answer'} (code {self.code})"


NOT_READ = Gap("NotRead", "not in the evidence")


@dataclass(frozen=True)
class Process:
    """One process on a GPU. ``memory`` in bytes, None when NVML does not say it. ``name`` None: it is not to
    be found here, because it runs in another PID namespace (``elsewhere``) or has ended since."""

    pid: int
    memory: int | None
    name: str | None
    kind: str
    elsewhere: bool = False

    @property
    def who(self) -> str:
        name = self.name or ("in another namespace" if self.elsewhere else "name not known")
        return f"pid {self.pid} ({name})"


@dataclass(frozen=True)
class Violation:
    """Time lost to one policy: ``lost_ns`` since the driver was loaded, at ``at_us`` (microseconds)."""

    at_us: int
    lost_ns: int


@dataclass(frozen=True)
class Pair:
    """What NVML says of the way from GPU ``a`` to GPU ``b``: the level of their common ancestor (0 same board,
    10, 20, 30 host bridge, 40 NUMA node, 50 system) and per capability 0 for OK, else why not (1 chipset,
    2 GPU, 3 topology, 4 disabled by a registry key, 5 not supported, 6 unknown)."""

    a: int
    b: int
    topo: int | Gap
    read: int | Gap
    write: int | Gap
    nvlink: int | Gap
    atomics: int | Gap
    pci: int | Gap

    @property
    def subject(self) -> str:
        return f"pair {self.a}-{self.b}"


ADDRESS, UNINDEXED = "nvmlDeviceGetPciInfo", "unindexed"


def unindexed(address: str) -> dict[str, Any]:
    """The start of a device whose address was told and whose NVML index was not: the address is its name."""
    return {ADDRESS: {"busId": address}, UNINDEXED: 1}


def subject_of(index: int, device: Mapping[str, Any]) -> str:
    """What findings call a GPU: ``gpu3``, or its address where its index is not known."""
    if UNINDEXED in device:
        with suppress(KeyError, TypeError, ValueError):
            return str(Bdf.parse(str(device[ADDRESS]["busId"])))
    return f"gpu{index}"
