"""Which drivers are known to compile on which kernels, and which are known not to. Rows with a source.

Two things follow from a row without a report of their own. A driver that a kernel's change broke is broken on every
later kernel too. A driver that compiles on a kernel compiles on older ones: NVIDIA's build asks the kernel at hand for
each interface. What no row reaches is unknown, and unknown asks for a trial build: the rows are few reports each.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from provision.data.drivers import number

CHECKED = "2026-11-29"

Answer = Literal["works", "fails", "unknown"]


def release(kernel: str) -> tuple[int, int, int] | None:
    """``6.17.13-2-pve`` as numbers; None for what is no kernel release (uname(2))."""
    found = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", kernel)
    return (int(found[1]), int(found[2]), int(found[3] or 0)) if found else None


def _covers(first: str, last: str | None, version: str) -> bool:
    return number(first) <= number(version) and (last is None or number(version) <= number(last))


@dataclass(frozen=True)
class DoesNotBuild:
    """Driver versions from ``first`` to ``last`` do not compile on ``kernel`` and what follows it: ``6.17`` is that
    kernel and every later one; ``6.12.117`` is that release and the later ones of its own series."""

    kernel: str
    first: str
    last: str
    why: str
    instead: str
    source: str

    def fits(self, version: str, kernel: str) -> bool:
        here, since = release(kernel), release(self.kernel)
        if here is None or since is None or not _covers(self.first, self.last, version):
            return False
        in_series = self.kernel.count(".") == 2
        return here >= since and (here[:2] == since[:2] or not in_series)


@dataclass(frozen=True)
class Builds:
    """Driver versions from ``first`` to ``last`` (None: and newer ones) compile on ``kernel``; ``verified`` False: a
    floor that somebody wrote down and nobody reported."""

    kernel: str
    first: str
    last: str | None
    source: str
    verified: bool = True

    def fits(self, version: str, kernel: str) -> bool:
        here, known = release(kernel), release(self.kernel)
        if here is None or known is None or not _covers(self.first, self.last, version):
            return False
        return here[:2] <= known[:2]


_CHANGED = "the kernel's interfaces changed after this driver"
_STRNCPY = "the kernel has no strncpy() any more, which this driver calls"

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
        _CHANGED,
        "580.105.08 or newer",
        "NVIDIA/open-gpu-kernel-modules#1143; MacRimi/ProxMenux for 580.82 to 580.95",
    ),
    DoesNotBuild(
        "7.0",
        "535.0",
        "580.119.02",
        _CHANGED,
        "580.159.04 or newer",
        "Frogging-Family/nvidia-all#379",
    ),
    DoesNotBuild(
        "7.0",
        "590.44.01",
        "590.48.01",
        _CHANGED,
        "580.159.04, or 610.43.02 or newer",
        "NVIDIA/open-gpu-kernel-modules#1041",
    ),
    DoesNotBuild(
        "7.1",
        "535.0",
        "580.142",
        _CHANGED,
        "580.159.04 or newer",
        "void-linux/void-packages#61087; release note of 580.159.04",
    ),
    DoesNotBuild(
        "7.2",
        "535.0",
        "580.173.02",
        _STRNCPY,
        "580.178.04, 595.91.07 or 610.57.04",
        "NixOS/nixpkgs#554125 and #563993",
    ),
    DoesNotBuild(
        "7.2",
        "610.43.02",
        "610.43.02",
        _STRNCPY,
        "610.57.04 or newer",
        "NixOS/nixpkgs#539211",
    ),
)

BUILDS = (
    Builds("6.1", "535.261.03", None, "seen: nvidia-open-kernel-dkms 535.261.03-1 on Debian bookworm's 6.1"),
    Builds(
        "6.8", "550.54.14", None, "MacRimi/ProxMenux, table of floors: 550 on Proxmox 6.8; no failure known"
    ),
    Builds("6.12", "550.163.01", None, "Debian trixie carries both; from 6.12.117 on it fails"),
    Builds("6.14", "570.133.07", None, "written down as a floor, no report of a build", verified=False),
    Builds(
        "6.17", "580.105.08", None, "MacRimi/ProxMenux; NVIDIA/open-gpu-kernel-modules#1143 for 580.119.02"
    ),
    Builds("7.0", "580.142", "580.999", "void-linux/void-packages#61087; 580.178.04 on Proxmox 7.0.14-15"),
    Builds("7.0", "610.43.02", None, "public report on Proxmox 7.0.2-7"),
    Builds("7.1", "580.159.04", "580.999", "release note of 580.159.04: build issue with Linux 7.1 fixed"),
    Builds("7.2", "580.178.04", "580.999", "NixOS/nixpkgs#563993"),
    Builds("7.2", "595.91.07", "595.999", "NixOS/nixpkgs#554125"),
    Builds("7.2", "610.57.04", None, "NixOS/nixpkgs#554125"),
)


@dataclass(frozen=True)
class Verdict:
    """Does a driver compile on a kernel, and who says so. ``instead`` is what to use where it does not; ``unknown``
    asks for a trial build before anything is installed."""

    answer: Answer
    why: str
    source: str
    instead: str = ""


def known_failure(version: str, kernel: str) -> DoesNotBuild | None:
    """The row that says why this version does not compile on this kernel; None when nothing is known against it."""
    return next((row for row in DOES_NOT_BUILD if row.fits(version, kernel)), None)


def verdict(version: str, kernel: str) -> Verdict:
    """What is known of a driver on a kernel (``uname -r``)."""
    failure = known_failure(version, kernel)
    if failure is not None:
        return Verdict("fails", failure.why, failure.source, failure.instead)
    rows = [row for row in BUILDS if row.fits(version, kernel)]
    sure = next((row for row in rows if row.verified), None)
    if sure is not None:
        return Verdict("works", f"it compiles on {sure.kernel}", sure.source)
    if rows:
        return Verdict("unknown", f"{rows[0].first} is only written down as a floor for it", rows[0].source)
    return Verdict("unknown", "no report of this driver on this kernel is known", "provision/data/kernels.py")
