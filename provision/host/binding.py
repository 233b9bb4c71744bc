"""Programs that take PCI functions from their drivers: what a line of one says. Pure."""

from __future__ import annotations

import re

BINDING = (
    r"driver_override|drivers/(vfio|pci-stub)[^ ]*/(bind|new_id)|vfio[-_]pci.*ids=|vfio[-_](pci[-_])?bind|"
    r"nodedev-dett?ach|driverctl +([^ ;|&]+ +)*set-override|devbind[^ ]* .*(-b|--bind)[ =]*vfio|/new_id([^a-z_]|$)|"
    r"/(vfio-pci|pci-stub)/bind([^a-z_]|$)|[$][^ ]*/bind([^a-z_]|$)"
)
"""As grep -E and Python read it; without a colon, which ends an expression in a request of the snapshot. ``new_id`` and
``$DRIVER/bind`` may be those of any driver: they count where VFIO is named too."""

_BINDING = re.compile(BINDING)
_OF_ANY = re.compile(r"/new_id([^a-z_]|$)|[$][^ ]*/bind([^a-z_]|$)")
_VFIO = re.compile(r"vfio|pci[-_]stub|nodedev-dett?ach")


def lines_of(text: str) -> list[tuple[int, str]]:
    """The lines that are no comments, with their numbers."""
    return [(at, line) for at, line in enumerate(text.split("\n"), 1) if not re.match(r"\s*[#;]", line)]


def binding(text: str) -> tuple[int, str] | None:
    """The first line that takes functions for virtual machines, None where none does. One that writes overrides and
    speaks of nvidia alone does the opposite."""
    lines = lines_of(text)
    said = "\n".join(line for _, line in lines)
    takes = _VFIO.search(said) is not None
    if "nvidia" in said and not takes:
        return None
    return next(
        (
            (at, line)
            for at, line in lines
            if _BINDING.search(line) and (takes or _BINDING.search(_OF_ANY.sub("", line)))
        ),
        None,
    )
