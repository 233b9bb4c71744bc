"""Programs that take PCI functions from their drivers: what a line of one says. Pure."""

from __future__ import annotations

import re

BINDING = (
    r"driver_override|drivers/(vfio|pci-stub)[^ ]*/(bind|new_id)|vfio[-_]pci.*ids=|vfio-(pci-)?bind|"
    r"nodedev-detach|driverctl +(-[^ ]+ +)*set-override"
)
"""As grep -E and Python read it; without a colon, which ends an expression in a request of the snapshot."""

_BINDING = re.compile(BINDING)


def lines_of(text: str) -> list[tuple[int, str]]:
    """The lines that are no comments, with their numbers."""
    return [(at, line) for at, line in enumerate(text.split("\n"), 1) if not re.match(r"\s*[#;]", line)]


def binding(text: str) -> tuple[int, str] | None:
    """The first line that takes functions for virtual machines, None where none does. One that writes overrides and
    speaks of nvidia alone does the opposite."""
    lines = lines_of(text)
    said = "\n".join(line for _, line in lines)
    found = next(((at, line) for at, line in lines if _BINDING.search(line)), None)
    gives_back = "nvidia" in said and not re.search(r"vfio|pci-stub|nodedev-detach", said)
    return None if gives_back else found
