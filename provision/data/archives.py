"""Which archives bring a driver to which distribution: NVIDIA's own repository, and what Debian's is good for. Rows
with a source."""

from __future__ import annotations

from dataclasses import dataclass

CHECKED = "2026-11-29"


@dataclass(frozen=True)
class Suite:
    """A distribution's release: ID and VERSION_ID of /etc/os-release (os-release(5)), its codename, the name that
    NVIDIA's repository has for it (None: it has none), and the metapackage that brings the headers of every next
    kernel. ``proxmox`` is the Proxmox VE that is built on it."""

    id: str
    version: str
    codename: str
    repository: str | None
    headers: str
    source: str
    proxmox: int | None = None


_REPOSITORY = f"NVIDIA CUDA network repository, names of distributions, read {CHECKED}"

SUITES = (
    Suite("debian", "12", "bookworm", "debian12", "linux-headers-amd64", _REPOSITORY, 8),
    Suite("debian", "13", "trixie", "debian13", "linux-headers-amd64", _REPOSITORY, 9),
    Suite("ubuntu", "22.04", "jammy", "ubuntu2204", "linux-headers-generic", _REPOSITORY),
    Suite("ubuntu", "24.04", "noble", "ubuntu2404", "linux-headers-generic", _REPOSITORY),
    Suite("ubuntu", "26.04", "resolute", "ubuntu2604", "linux-headers-generic", _REPOSITORY),
)

PROXMOX_HEADERS = "proxmox-default-headers"
"""Brings the headers of each next Proxmox kernel (Proxmox VE, package proxmox-kernel-meta); pve-headers before 8."""


def suite_of(codename: str) -> Suite | None:
    """By codename, or by ``debian12`` and ``24.04`` as well."""
    return next((row for row in SUITES if codename in (row.codename, row.repository, row.version)), None)


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
