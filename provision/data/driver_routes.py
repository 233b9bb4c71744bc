"""The routes by which a driver comes from packages: their archives, package names and flags. Rows with a source."""

from __future__ import annotations

from dataclasses import dataclass

from provision.data.driver_packages import PARTS as DEBIAN_PARTS
from provision.data.driver_packages import Flavour, Part

APT_ROUTES = ("debian", "nvidia", "ubuntu")
"""Routes that end in packages of dpkg."""
ASKING_ROUTES = (*APT_ROUTES, "run")
"""Routes that need packages: headers and a compiler at least."""

_GUIDE = "NVIDIA driver installation guide, Debian and Ubuntu, network repository, read 2026-11"


@dataclass(frozen=True)
class Repository:
    """NVIDIA's network repository for one distribution. ``system`` is ID and VERSION_ID of its os-release(5)."""

    distro: str
    system: tuple[str, str]
    source: str


REPOSITORIES = (
    Repository("debian12", ("debian", "12"), f"{_GUIDE}; Proxmox VE 8 is Debian 12"),
    Repository("debian13", ("debian", "13"), f"{_GUIDE}; Proxmox VE 9 is Debian 13"),
    Repository("ubuntu2204", ("ubuntu", "22.04"), _GUIDE),
    Repository("ubuntu2404", ("ubuntu", "24.04"), _GUIDE),
    Repository("ubuntu2604", ("ubuntu", "26.04"), _GUIDE),
)


@dataclass(frozen=True)
class Vendor:
    """Where NVIDIA's repositories are, and what proves that a package list is theirs. ``fingerprint`` is that of the
    key in the keyring package, in hexadecimal; ``origin`` stands in the Release file."""

    address: str
    keyring: str
    fingerprint: str
    origin: str
    source: str


VENDOR = Vendor(
    "https://developer.download.nvidia.com/compute/cuda/repos",
    "cuda-keyring_1.1-1_all.deb",
    "EB693B3035CD5710E231E123A4B469963BF863CC",
    "NVIDIA",
    f"{_GUIDE}; key 3BF863CC, which replaced 7FA2AF80 on 2022-04-27",
)

MACHINES = {"amd64": "x86_64", "arm64": "sbsa"}
"""Architectures of dpkg as the repository's folders call them."""


def repository(system: tuple[str, str]) -> Repository | None:
    return next((row for row in REPOSITORIES if row.system == system), None)


def _nvidia_on_debian(flavour: Flavour) -> tuple[Part, ...]:
    kernel = {"open": "nvidia-kernel-open-dkms", "proprietary": "nvidia-kernel-dkms"}[flavour]
    return (
        Part(kernel, "kernel", _GUIDE),
        Part("nvidia-driver-cuda", "user space", _GUIDE),
        Part("libcuda1", "user space", _GUIDE),
        Part("libnvidia-ml1", "user space", _GUIDE, needed=False),
        Part("nvidia-modprobe", "user space", _GUIDE, needed=False),
        Part("nvidia-persistenced", "user space", _GUIDE, needed=False),
    )


def _nvidia_on_ubuntu(flavour: Flavour, branch: int) -> tuple[Part, ...]:
    """From 590 on the names carry no branch."""
    end = "" if branch >= 590 else f"-{branch}"
    kernel = f"nvidia-dkms{end}-open" if flavour == "open" else f"nvidia-dkms{end}"
    return (
        Part(kernel, "kernel", _GUIDE),
        Part(f"libnvidia-compute{end}", "user space", _GUIDE),
        Part(f"nvidia-utils{end}", "user space", _GUIDE),
    )


_UBUNTU = "Ubuntu server documentation, NVIDIA drivers, gpgpu server branches, read 2026-11"


def _ubuntu(flavour: Flavour, branch: int) -> tuple[Part, ...]:
    """The headless set of a server branch: no X11, no compiler, modules that Canonical signed."""
    name = f"{branch}-server-open" if flavour == "open" else f"{branch}-server"
    return (
        Part(f"nvidia-headless-{name}", "support", _UBUNTU),
        Part(f"nvidia-utils-{branch}-server", "user space", _UBUNTU),
        Part(f"libnvidia-compute-{branch}-server", "user space", _UBUNTU),
    )


def signed_modules(flavour: Flavour, version: str) -> str:
    """What the names of Ubuntu's prebuilt modules begin with; a kernel's release, or its flavour, follows."""
    branch = version.split(".")[0]
    return f"linux-modules-nvidia-{branch}-server-{'open-' if flavour == 'open' else ''}"


def parts(route: str, flavour: Flavour, version: str, system: str = "debian") -> tuple[Part, ...]:
    """The packages of a driver on a system (ID of os-release). Raises ValueError for a route without packages."""
    branch = int(version.split(".")[0])
    match route:
        case "debian":
            return tuple(part for part in DEBIAN_PARTS if part.flavour in (None, flavour))
        case "nvidia" if system == "ubuntu":
            return _nvidia_on_ubuntu(flavour, branch)
        case "nvidia":
            return _nvidia_on_debian(flavour)
        case "ubuntu":
            return _ubuntu(flavour, branch)
    raise ValueError(f"route {route!r} has no packages")


PINNED_NAMES = "*nvidia* libcuda1 libcudadebugger1 libnvcuvid1 libnvoptix1 cuda-drivers*"
"""What NVIDIA's repository brings for a driver, as apt_preferences(5) matches names."""


def preferences(version: str) -> str:
    """apt_preferences(5) for route ``nvidia``: NVIDIA's packages in this version before any other (1001: also when a
    newer one is installed), and never Debian's packages of the same driver. The first record that matches a version
    counts, so this file's name must sort before ``nvidia-driver-pinning-*``. There are no quotes in it."""
    debian = " ".join(part.package for part in DEBIAN_PARTS)
    return (
        "# kpro: the driver comes from the vendor alone; two archives mixed end in two versions\n"
        f"Package: {PINNED_NAMES}\nPin: version {version}-*\nPin-Priority: 1001\n\n"
        f"Package: {PINNED_NAMES}\nPin: release o={VENDOR.origin}\nPin-Priority: 900\n\n"
        f"Package: {debian}\nPin: release o=Debian\nPin-Priority: -1\n"
    )


def pinning_packages(version: str) -> tuple[str, str]:
    """NVIDIA's packages that hold a driver at one version, or at one branch: the first that there is goes first."""
    return f"nvidia-driver-pinning-{version}", f"nvidia-driver-pinning-{version.split('.')[0]}"


@dataclass(frozen=True)
class Headers:
    """The package that brings headers for the next kernel, for an installed metapackage of kernels. ``kernel`` and
    ``headers`` are parts of names: what follows ``kernel`` follows ``headers``."""

    kernel: str
    headers: str
    source: str


HEADERS = (
    Headers(
        "proxmox-default-kernel", "proxmox-default-headers", "Proxmox VE administration guide; host packages"
    ),
    Headers(
        "proxmox-kernel-", "proxmox-headers-", "Proxmox VE: proxmox-kernel-6.17 and proxmox-headers-6.17"
    ),
    Headers("pve-kernel-", "pve-headers-", "Proxmox VE 7: pve-kernel-5.15 and pve-headers-5.15"),
    Headers("linux-image-", "linux-headers-", "Debian linux-image-amd64, Ubuntu linux-image-generic"),
)
