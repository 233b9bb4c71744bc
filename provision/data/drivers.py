"""NVIDIA drivers: the branches and versions that are known, what Debian carries, what CUDA needs.

A version that has no row is refused, because a mistyped pin otherwise shows itself only when a package or
an installer cannot be found, with the GPUs already released. A new version is one row with its source.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches

VERSION_FORM = re.compile(r"\d{3}\.\d{2,3}(?:\.\d{2})?")

CHECKED = "2026-11-29"
"""When branches, archives and tables were last compared with their sources."""


def number(version: str) -> tuple[int, ...]:
    """``580.65.06`` as numbers, so that two- and three-part versions compare (both exist: 550.78, 595.84)."""
    return tuple(int(part) for part in version.split("."))


@dataclass(frozen=True)
class Branch:
    """A driver branch. ``until`` is the last month in which NVIDIA looks after it (``2026-06``); None where its
    lifecycle page lists the branch no longer, or never did. ``successor`` is the branch to move to."""

    branch: str
    kind: str
    until: str | None
    successor: str | None
    source: str

    def supported(self, month: str = CHECKED[:7]) -> bool:
        """Does NVIDIA still look after it in this month (``2026-11``)? A branch without a date: no."""
        return self.until is not None and self.until >= month


_LIFECYCLE = f"NVIDIA data centre drivers, lifecycle page, read {CHECKED}"

BRANCHES = (
    Branch("535", "long-term support", "2026-06", "580", _LIFECYCLE),
    Branch("550", "production", None, "580", "Debian trixie, nvidia-driver 550.163.01-2"),
    Branch("555", "new feature", None, "580", "NVIDIA/open-gpu-kernel-modules#1143"),
    Branch("560", "new feature", None, "580", "CUDA 12.6 release notes, driver table"),
    Branch("565", "new feature", None, "580", "public report of an open module 565.57.01"),
    Branch("570", "production", None, "580", "CUDA 12.8 release notes, driver table"),
    Branch("575", "new feature", None, "580", "CUDA 12.9 release notes, driver table"),
    Branch("580", "long-term support", "2028-06", None, _LIFECYCLE),
    Branch(
        "590",
        "new feature",
        None,
        "595",
        f"CUDA 13.1 release notes; no longer in the table of the {_LIFECYCLE}",
    ),
    Branch("595", "production", "2027-03", "620", _LIFECYCLE),
    Branch("610", "new feature", "2026-08", "620", _LIFECYCLE),
    Branch("620", "long-term support", "2029-09", None, _LIFECYCLE),
)


@dataclass(frozen=True)
class Driver:
    """A driver version that was seen in public."""

    version: str
    source: str

    @property
    def branch(self) -> str:
        return self.version.split(".")[0]


DRIVERS = (
    Driver("535.261.03", "Debian bookworm, nvidia-driver 535.261.03-1"),
    Driver("535.274.02", "Debian trixie, nvidia-tesla-535-driver"),
    Driver("535.309.01", "Debian bookworm-security, nvidia-kernel-dkms 535.309.01-0+deb12u1"),
    Driver("550.54.14", "CUDA 12.4 release notes, driver table"),
    Driver("550.78", "public report of /proc/driver/nvidia/version"),
    Driver("550.163.01", "Debian trixie, nvidia-driver 550.163.01-2"),
    Driver("555.58.02", "Debian experimental; NVIDIA/open-gpu-kernel-modules#1143"),
    Driver("560.28.03", "CUDA 12.6 release notes, driver table"),
    Driver("565.57.01", "public report of /proc/driver/nvidia/version"),
    Driver("570.26", "CUDA 12.8 release notes, driver table"),
    Driver("570.133.07", "Debian trixie, nvidia-modprobe 570.133.07"),
    Driver("570.148.08", "public report of a client and kernel mismatch"),
    Driver("575.51.03", "CUDA 12.9 release notes, driver table"),
    Driver("580.65.06", "CUDA 13.0 release notes, driver table"),
    Driver("580.82.07", "CUDA 13.0 update 1 release notes, driver table"),
    Driver("580.95.05", "CUDA 13.0 update 2 release notes, driver table"),
    Driver("580.105.08", "MacRimi/ProxMenux, floor for Proxmox kernel 6.17"),
    Driver("580.119.02", "Frogging-Family/nvidia-all#379"),
    Driver("580.142", "void-linux/void-packages#61087"),
    Driver("580.159.03", "dkms status of an Ubuntu 6.17 kernel, public report"),
    Driver("580.159.04", "release note: fixed kernel module build issue with Linux kernel v7.1"),
    Driver("580.173.02", "public report, late 2026"),
    Driver("580.178.04", "public report on Proxmox kernel 7.0.14-15"),
    Driver("590.44.01", "CUDA 13.1 release notes, driver table"),
    Driver("590.48.01", "CUDA 13.1 update 1 release notes; NVIDIA/open-gpu-kernel-modules#1041"),
    Driver("595.45.04", "CUDA 13.2 release notes, driver table"),
    Driver("595.58.03", "CUDA 13.2 update 1 release notes, driver table"),
    Driver("595.71.05", "CUDA 13.2 update 2 release notes, driver table"),
    Driver("595.84", "public report, late 2026"),
    Driver("595.91.07", "NixOS/nixpkgs#554125"),
    Driver("610.43.02", "public report on Proxmox kernel 7.0.2-7"),
    Driver("610.43.03", "NVIDIA/nvidia-modprobe, tag 610.43.03"),
    Driver("610.57.04", "jd-apprentice/jd-llm, Proxmox kernel 7.0.14-15"),
)


@dataclass(frozen=True)
class DebianDriver:
    """What route ``debian`` installs: the archive decides the version, a pin can only agree with it."""

    suite: str
    version: str
    source: str


DEBIAN = (
    DebianDriver("bookworm", "535.261.03", "Debian archive, nvidia-driver 535.261.03-1, read 2026-11-29"),
    DebianDriver("trixie", "550.163.01", "Debian archive, nvidia-driver 550.163.01-2, read 2026-11-29"),
)


@dataclass(frozen=True)
class CudaFloor:
    """The lowest driver on which a runtime of this CUDA major version works (minor-version compatibility)."""

    major: int
    driver: str
    source: str


CUDA_FLOORS = (
    CudaFloor(12, "525.60.13", "CUDA compatibility guide: any 12.x runtime on 525 or newer"),
    CudaFloor(13, "580.65.06", "CUDA 13.0 release notes, driver table; any 13.x runtime on 580 or newer"),
)


@dataclass(frozen=True)
class CudaDriver:
    """The driver that a CUDA release was made with: its own table's minimum. ``update`` 0 is the first release."""

    cuda: str
    update: int
    driver: str
    source: str


_NOTES = "CUDA release notes, table of driver versions"

CUDA_DRIVERS = (
    CudaDriver("12.4", 0, "550.54.14", _NOTES),
    CudaDriver("12.6", 0, "560.28.03", _NOTES),
    CudaDriver("12.8", 0, "570.26", _NOTES),
    CudaDriver("12.9", 0, "575.51.03", _NOTES),
    CudaDriver("13.0", 0, "580.65.06", _NOTES),
    CudaDriver("13.0", 1, "580.82.07", _NOTES),
    CudaDriver("13.0", 2, "580.95.05", _NOTES),
    CudaDriver("13.1", 0, "590.44.01", _NOTES),
    CudaDriver("13.1", 1, "590.48.01", _NOTES),
    CudaDriver("13.2", 0, "595.45.04", _NOTES),
    CudaDriver("13.2", 1, "595.58.03", _NOTES),
    CudaDriver("13.2", 2, "595.71.05", _NOTES),
)


def known(version: str) -> Driver | None:
    return next((row for row in DRIVERS if row.version == version), None)


def branch_of(version: str) -> Branch | None:
    return next((row for row in BRANCHES if row.branch == version.split(".")[0]), None)


def floor_for(cuda: str) -> CudaFloor | None:
    """The driver floor of a CUDA version like ``13.0``; None when that major version has no row."""
    return next((row for row in CUDA_FLOORS if row.major == int(cuda.split(".")[0])), None)


def driver_of(cuda: str) -> CudaDriver | None:
    """The first release of a CUDA version like ``12.8`` and its driver; None when it has no row."""
    return next((row for row in CUDA_DRIVERS if row.cuda == cuda and row.update == 0), None)


def highest_cuda(version: str) -> str | None:
    """The newest CUDA that a driver was made for, as the head of nvidia-smi shows it; None below every row."""
    rows = [row for row in CUDA_DRIVERS if number(row.driver) <= number(version)]
    return rows[-1].cuda if rows else None


def wrong(version: str) -> str | None:
    """Why a pinned version cannot be trusted, or None when it has a row."""
    if known(version):
        return None
    if not VERSION_FORM.fullmatch(version):
        return f"{version!r} has not the form of an NVIDIA version, like '580.159.04' or '595.84'"
    rows = [row.version for row in DRIVERS if row.branch == version.split(".")[0]]
    near = get_close_matches(version, [row.version for row in DRIVERS], n=1, cutoff=0.8)
    hint = f"did you mean {near[0]!r}? " if near else ""
    if rows:
        return (
            f"no driver {version!r} is known: {hint}of branch {version.split('.')[0]} there are "
            f"{', '.join(rows)}; a newer one is one row with its source in provision/data/drivers.py"
        )
    branches = ", ".join(row.branch for row in BRANCHES)
    return f"no driver {version!r} is known: {hint}the known branches are {branches}"
