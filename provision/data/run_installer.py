"""NVIDIA's .run installer: its name and the flags that kpro gives it. Rows with a source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Place = Literal["host", "guest"]

LOG = "/var/log/nvidia-installer.log"
UNINSTALL = "/usr/bin/nvidia-uninstall"
ROOM_MB = 1500
"""What unpacking needs on the disk, in MiB (community-scripts and lxd reports of containers with less)."""


def file_name(version: str) -> str:
    return f"NVIDIA-Linux-x86_64-{version}.run"


@dataclass(frozen=True)
class Flag:
    """A flag for the host, for a guest, or for both; ``older`` is what installers that do not know it call it."""

    flag: str
    places: tuple[Place, ...]
    why: str
    source: str
    older: str | None = None


_HELP = "nvidia-installer, --advanced-options"
_BOTH: tuple[Place, ...] = ("host", "guest")

FLAGS = (
    Flag("--silent", _BOTH, "no questions, and no user interface", _HELP),
    Flag("--no-questions", ("host",), "takes the default of what it would ask", _HELP),
    Flag("--ui=none", ("host",), "a terminal is not needed", _HELP),
    Flag("--dkms", ("host",), "the next kernel gets its modules", _HELP),
    Flag("--kernel-module-type={flavour}", ("host",), "the pinned flavour", _HELP, "-m={older_flavour}"),
    Flag("--disable-nouveau", ("host",), "nouveau would take the GPU at the next boot", _HELP),
    Flag("--no-x-check", _BOTH, "a server of X11 is nobody's here", _HELP),
    Flag("--no-opengl-files", _BOTH, "compute needs no OpenGL", _HELP),
    Flag(
        "--no-kernel-modules",
        ("guest",),
        "without it: An NVIDIA kernel module 'nvidia-uvm' appears to already be loaded in your kernel",
        "lxc/lxd#5415",
        "--no-kernel-module",
    ),
    Flag("--no-dkms", ("guest",), "a guest has no kernel of its own", _HELP),
    Flag("--no-install-compat32-libs", ("guest",), "32-bit programs are nobody's here", _HELP),
    Flag("--no-nvidia-modprobe", ("guest",), "a guest makes no nodes and loads nothing", _HELP),
    Flag("--no-drm", ("guest",), "a guest has no display", _HELP),
)


def flags(place: Place, flavour: str) -> list[tuple[str, str | None]]:
    """The flags for a place, each with what an older installer takes instead (None: it knows it)."""
    older = {"open": "kernel-open", "proprietary": "kernel"}[flavour]
    return [
        (
            row.flag.format(flavour=flavour),
            row.older.format(older_flavour=older) if row.older else None,
        )
        for row in FLAGS
        if place in row.places
    ]
