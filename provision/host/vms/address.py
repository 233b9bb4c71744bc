"""PCI addresses as virtual machines name them: a function, or a whole slot. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from checks.bdf import Bdf

_FORM = re.compile(r"(?:([0-9a-f]{4,}):)?([0-9a-f]{1,2}):([0-9a-f]{1,2})(?:\.([0-9a-f]))?", re.IGNORECASE)


@dataclass(frozen=True, order=True)
class PciAddress:
    """``function`` None: every function of the slot (qemu-server, PVE/QemuServer/PCI.pm)."""

    domain: int
    bus: int
    slot: int
    function: int | None

    @classmethod
    def parse(cls, text: str) -> PciAddress:
        """Reads ``42:00``, ``0000:42:00.0``, ``00000000:42:00.0``. Raises ValueError when it is no PCI address."""
        match = _FORM.fullmatch(text.strip())
        if match is None or int(match[3], 16) > 0x1F:
            raise ValueError(f"{text.strip()!r} is not a PCI address like 0000:42:00.0")
        function = None if match[4] is None else int(match[4], 16)
        return cls(int(match[1] or "0", 16), int(match[2], 16), int(match[3], 16), function)

    def covers(self, bdf: Bdf) -> bool:
        """Is this function meant?"""
        same_slot = (self.domain, self.bus, self.slot) == (bdf.domain, bdf.bus, bdf.slot)
        return same_slot and self.function in (None, bdf.function)

    def __str__(self) -> str:
        end = "" if self.function is None else f".{self.function:x}"
        return f"{self.domain:04x}:{self.bus:02x}:{self.slot:02x}{end}"


def addresses(text: str) -> tuple[PciAddress, ...]:
    """A list with ``;`` between its addresses. Raises ValueError when one of them is none."""
    return tuple(PciAddress.parse(one) for one in text.split(";") if one.strip())
