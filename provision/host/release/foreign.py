"""Holders that kpro shows and leaves to the operator: driverctl's overrides, scripts of the initramfs. Pure."""

from __future__ import annotations

import re

from checks.bdf import Bdf
from provision.host.release.target import Holder

_ADDRESS = re.compile(r"\b(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[01][0-9a-f]\.[0-7]\b", re.IGNORECASE)


def driverctl(path: str, text: str) -> tuple[Holder, ...]:
    """/etc/driverctl.d/pci-BDF holds a driver's name (driverctl(8)); its service sets the override at each boot."""
    name, driver = path.rsplit("/", 1)[1], text.strip()
    if not name.startswith("pci-") or "vfio" not in driver:
        return ()
    try:
        bdf = Bdf.parse(name.removeprefix("pci-"))
    except ValueError:
        return ()
    instead = f"driverctl --nosave unset-override {bdf}; rm {path}"
    return (Holder(path, 1, text, f"binds {bdf} to {driver}", lambda function: function.bdf == bdf, instead),)


def script(path: str, text: str) -> tuple[Holder, ...]:
    """Hooks and scripts of initramfs-tools that write driver_override or give ids: programs, which nobody can clean.

    One that names addresses concerns those; one that names none may concern every GPU.
    """
    lines = [(at, line) for at, line in enumerate(text.split("\n"), 1) if not line.lstrip().startswith("#")]
    binding = [
        (at, line) for at, line in lines if "driver_override" in line or re.search(r"vfio[-_]pci.*ids=", line)
    ]
    if not binding:
        return ()
    named = {Bdf.parse(found) for _, line in lines for found in _ADDRESS.findall(line)}
    instead = f"take the GPUs out of {path}, or remove it, then: update-initramfs -u -k all"
    return (
        Holder(
            path,
            *binding[0],
            "binds GPUs while the initramfs runs",
            lambda function: not named or function.bdf in named,
            instead,
        ),
    )
