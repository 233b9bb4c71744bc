"""Which distribution NVIDIA's repository serves by which name, and what Debian's own packages are good for. Rows with a
source."""

from __future__ import annotations

from dataclasses import dataclass

from provision.data.driver_routes import repository

CHECKED = "2026-11-29"


@dataclass(frozen=True)
class Suite:
    """A distribution's release: ID and VERSION_ID of os-release(5) and its codename. ``proxmox`` is the Proxmox VE that
    is built on it."""

    id: str
    version: str
    codename: str
    source: str
    proxmox: int | None = None

    @property
    def repository(self) -> str | None:
        """The name of NVIDIA's repository for it; None where NVIDIA has none."""
        row = repository((self.id, self.version))
        return row.distro if row else None


_RELEASES = f"os-release of the release, read {CHECKED}"

SUITES = (
    Suite("debian", "12", "bookworm", _RELEASES, 8),
    Suite("debian", "13", "trixie", _RELEASES, 9),
    Suite("ubuntu", "22.04", "jammy", _RELEASES),
    Suite("ubuntu", "24.04", "noble", _RELEASES),
    Suite("ubuntu", "26.04", "resolute", _RELEASES),
)

PROXMOX_HEADERS = "proxmox-default-headers"
"""Brings the headers of each next Proxmox kernel (Proxmox VE 8 and 9, package proxmox-kernel-meta)."""


def suite_of(name: str) -> Suite | None:
    """By codename (``trixie``)."""
    return next((row for row in SUITES if row.codename == name), None)


@dataclass(frozen=True)
class DebianLimit:
    """Where Debian's own packages of a driver must not be used. ``about`` names what is judged."""

    about: str
    text: str
    source: str


_STATE = f"Debian archive (bookworm 535, trixie 550) as of {CHECKED}"

DEBIAN_LIMITS = {
    "proxmox": DebianLimit(
        "proxmox",
        "Debian's driver does not compile on the kernels of Proxmox VE 9.1 and later (6.17, 7.0)",
        "NVIDIA/open-gpu-kernel-modules#1143",
    ),
    "blackwell": DebianLimit(
        "blackwell", "Debian's drivers are older than the GPU (it needs 570 or newer)", _STATE
    ),
    "cuda": DebianLimit("cuda", "Debian's drivers end before CUDA 13 (it needs 580 or newer)", _STATE),
}
