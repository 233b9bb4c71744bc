"""What the kernel's log says of one PCI function: messages of vfio-pci and of NVIDIA's driver. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from checks.bdf import Bdf

_ADDRESS = r"(?:PCI:)?([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-7])?)"
_POWER = re.compile(
    rf"{_ADDRESS}: (?:not ready \d+ms after .*giving up|(?:Unable to|can't) change power state from .*"
    r"|Refused to change power state(?: from \S+ to D0|, currently in D3).*)",
    re.IGNORECASE,
)
_WINDOW = re.compile(rf"BAR1 is 0M @ 0x0 \({_ADDRESS}\)", re.IGNORECASE)
_REMOVING = re.compile(
    rf"(Attempting to remove device|Continuing with GPU removal for device) {_ADDRESS}.*", re.IGNORECASE
)
_XID = re.compile(rf"Xid \({_ADDRESS}\): 154,.*\bto 0x[0-9a-f]+ \(([^)]*)\)", re.IGNORECASE)
_USED = re.compile(rf"vfio-pci {_ADDRESS}: (?:enabling device|resetting|reset done).*", re.IGNORECASE)


def _of(lines: Sequence[str], pattern: re.Pattern[str], group: int, bdf: Bdf) -> Iterator[re.Match[str]]:
    for line in lines:
        match = pattern.search(line)
        if match is not None and Bdf.parse(match[group]) == bdf:
            yield match


def lost_power(lines: Sequence[str], bdf: Bdf) -> str | None:
    """It did not come back from sleep or a reset (kernel, drivers/pci/pci.c ``pci_dev_wait``, ``pci_power_up``)."""
    return next((match[0] for match in _of(lines, _POWER, 1, bdf)), None)


def no_window(lines: Sequence[str], bdf: Bdf) -> str | None:
    """The driver found no window (NVIDIA/open-gpu-kernel-modules, kernel-open/nvidia/nv-pci.c)."""
    return next((match[0] for match in _of(lines, _WINDOW, 1, bdf)), None)


def being_removed(lines: Sequence[str], bdf: Bdf) -> str | None:
    """An unbind waits for those who use the GPU; the driver says when it goes on (the same, ``nv_pci_remove``)."""
    last = list(_of(lines, _REMOVING, 2, bdf))[-1:]
    return last[0][0] if last and last[0][1].lower().startswith("attempting") else None


def wants_reboot(lines: Sequence[str], bdf: Bdf) -> str | None:
    """Xid 154 says which action is needed from now on: the last one counts."""
    last = list(_of(lines, _XID, 1, bdf))[-1:]
    return last[0][0] if last and "Node Reboot" in last[0][2] else None


def was_used(lines: Sequence[str], bdf: Bdf) -> str | None:
    """A virtual machine has had it since the boot: vfio-pci enables and resets a function when one opens it."""
    return next((match[0] for match in _of(lines, _USED, 1, bdf)), None)
