"""What the metal steps hand to their acts: file edits, switches of PCI functions, the driver to load. Plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from checks.bdf import Bdf


@dataclass(frozen=True)
class FileEdit:
    """A file as it is to be. ``before`` is the sha256 of the content it was decided on, None when it was absent;
    ``why`` says in a few words what is taken out or put in. ``gone``: the file is to be no more, ``data`` is empty."""

    path: str
    before: str | None
    data: bytes
    why: str
    mode: str = "644"
    gone: bool = False


@dataclass(frozen=True)
class Edits:
    """Files of the boot configuration, in the order in which they are written."""

    files: tuple[FileEdit, ...]


@dataclass(frozen=True)
class Regenerate:
    """What has to be made anew so that the next boot follows the files. ``kernels`` are the releases whose initramfs is
    rebuilt; ``boot_loader`` None: the machine has none of these."""

    kernels: tuple[str, ...]
    boot_loader: Literal["grub", "proxmox-boot-tool"] | None


@dataclass(frozen=True)
class Function:
    """A PCI function that changes hands. ``now`` is the driver it is bound to (None: none). ``wanted`` is the one to
    offer it to afterwards; None: it is left without one, and step 3 binds it. A companion whose ``wanted`` driver is
    not there or does not take it is well without. ``now`` equal to ``wanted``: only its driver_override is cleared.
    ``group`` is its IOMMU group."""

    bdf: Bdf
    now: str | None
    wanted: str | None
    group: str | None


@dataclass(frozen=True)
class Switch:
    """A GPU with its companion functions, to be taken from the drivers they are bound to. ``keep`` are other NVIDIA
    functions that must stay as they are."""

    gpu: Bdf
    functions: tuple[Function, ...]
    keep: tuple[Bdf, ...]


@dataclass(frozen=True)
class Load:
    """The driver to load: the pinned ``version``, the GPUs it must be bound to afterwards, and the functions that it
    must not take. ``instead`` is version and flavour of another one that is loaded and goes first."""

    version: str
    flavour: str
    gpus: tuple[Bdf, ...]
    keep: tuple[Bdf, ...]
    instead: tuple[str, str] | None = None


@dataclass(frozen=True)
class Asleep:
    """A running container that is stopped for an exchange of the driver, with the ``units`` that serve in it. The
    ``folder`` PCT stands for a container of Proxmox; its operator may say in how many ``seconds`` it has to be down."""

    id: str
    folder: str
    units: tuple[str, ...]
    seconds: int | None = None


PCT = "pct"


@dataclass(frozen=True)
class Reason:
    """Why something cannot be done while the machine runs: the row's id, the function or host meant, what was seen."""

    row: str
    subject: str
    seen: str


@dataclass(frozen=True)
class Reboot:
    """A reboot with its recorded reasons; ``deadline`` in seconds until the machine must answer again.

    Unless the controller confirms, the machine undoes the run by itself ``confirm_seconds`` after its boot, and at once
    when it boots for the ``confirm_boots``-th time. Not ``armed``: there is nothing to undo."""

    reasons: tuple[Reason, ...]
    deadline: int = 900
    confirm_seconds: int = 600
    confirm_boots: int = 2
    armed: bool = True
