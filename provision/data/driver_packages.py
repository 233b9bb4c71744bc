"""Which Debian packages a driver is made of. Rows with a source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Flavour = Literal["open", "proprietary"]


@dataclass(frozen=True)
class Part:
    """A package of a driver. ``exact``: its version must be the driver's own; ``needed`` False: taken where the suite
    has it; ``flavour`` None: both flavours need it."""

    package: str
    what: Literal["kernel", "firmware", "user space", "support"]
    source: str
    exact: bool = True
    needed: bool = True
    flavour: Flavour | None = None


_ARCHIVE = "Debian archive, bookworm and trixie, file lists read 2026-11-29"

PARTS = (
    Part("nvidia-open-kernel-dkms", "kernel", _ARCHIVE, flavour="open"),
    Part("nvidia-kernel-dkms", "kernel", _ARCHIVE, flavour="proprietary"),
    Part("firmware-nvidia-gsp", "firmware", _ARCHIVE),
    Part("nvidia-open-kernel-support", "support", _ARCHIVE, flavour="open"),
    Part("nvidia-kernel-support", "support", _ARCHIVE, flavour="proprietary"),
    Part("nvidia-alternative", "support", _ARCHIVE),
    Part("nvidia-smi", "user space", _ARCHIVE),
    Part("libnvidia-ml1", "user space", _ARCHIVE),
    Part("libcuda1", "user space", _ARCHIVE),
    Part("libnvidia-ptxjitcompiler1", "user space", _ARCHIVE),
    Part("libnvidia-cfg1", "user space", _ARCHIVE, needed=False),
    Part("libnvidia-nvvm4", "user space", _ARCHIVE, needed=False),
    Part("libnvidia-pkcs11-openssl3", "user space", _ARCHIVE, needed=False),
    Part("libcudadebugger1", "user space", _ARCHIVE, needed=False),
    Part(
        "nvidia-modprobe",
        "user space",
        "a source package of its own in Debian, with a version of its own",
        exact=False,
    ),
)


def parts(flavour: Flavour) -> tuple[Part, ...]:
    return tuple(part for part in PARTS if part.flavour in (None, flavour))


def upstream(package_version: str) -> str:
    """``535.261.03`` of ``535.261.03-1`` and ``1:535.261.03-1~bpo12+1``."""
    return package_version.split(":", 1)[-1].rsplit("-", 1)[0]
