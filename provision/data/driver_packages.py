"""Which Debian packages a driver is made of, and which combinations are known not to compile. Rows with a source."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from provision.data.drivers import number

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


@dataclass(frozen=True)
class DoesNotBuild:
    """Driver versions from ``first`` to ``last`` do not compile on kernels whose release begins with ``kernel``."""

    kernel: str
    first: str
    last: str
    why: str
    instead: str
    source: str

    def fits(self, version: str, kernel: str) -> bool:
        return re.match(rf"{re.escape(self.kernel)}(?![0-9])", kernel) is not None and number(
            self.first
        ) <= number(version) <= number(self.last)


DOES_NOT_BUILD = (
    DoesNotBuild(
        "6.12.117",
        "550.163.01",
        "550.163.01",
        "pci_resize_resource() has four arguments on this kernel, the driver passes three",
        "an older kernel of the suite, or driver 580.105.08 or newer from another route",
        "seen: nvidia-open-kernel-dkms 550.163.01-2 on Debian trixie, kernel 6.12.117",
    ),
    DoesNotBuild(
        "6.17",
        "535.0",
        "580.95.05",
        "the kernel's interfaces changed after this driver",
        "580.105.08 or newer",
        "NVIDIA/open-gpu-kernel-modules#1143; MacRimi/ProxMenux for 580.82 to 580.95",
    ),
    DoesNotBuild(
        "7.0",
        "535.0",
        "580.119.02",
        "the kernel's interfaces changed after this driver",
        "580.159.04 or newer",
        "Frogging-Family/nvidia-all#379",
    ),
    DoesNotBuild(
        "7.0",
        "590.44.01",
        "590.48.01",
        "the kernel's interfaces changed after this driver",
        "580.159.04, or 610.43.02 or newer",
        "NVIDIA/open-gpu-kernel-modules#1041",
    ),
    DoesNotBuild(
        "7.1",
        "535.0",
        "580.142",
        "the kernel's interfaces changed after this driver",
        "580.159.04 or newer",
        "void-linux/void-packages#61087; release note of 580.159.04",
    ),
)


def known_failure(version: str, kernel: str) -> DoesNotBuild | None:
    """The row that says why this version does not compile on this kernel; None when nothing is known against it."""
    return next((row for row in DOES_NOT_BUILD if row.fits(version, kernel)), None)
