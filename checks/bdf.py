"""PCI addresses. One spelling inside the house, every spelling accepted at the door."""

from __future__ import annotations

import re
from dataclasses import dataclass

_FORM = re.compile(
    r"(?:(?P<domain>[0-9a-f]{4,8}):)?(?P<bus>[0-9a-f]{1,2}):(?P<slot>[0-9a-f]{1,2})(?:\.(?P<function>[0-7]))?"
)


@dataclass(frozen=True, order=True)
class Bdf:
    """A PCI function: domain, bus, slot, function. ``str()`` gives the kernel's form, ``0000:42:00.0``."""

    domain: int
    bus: int
    slot: int
    function: int

    @classmethod
    def parse(cls, text: str) -> Bdf:
        """Reads ``42:00.0``, ``0000:42:00.0``, NVML's ``00000000:42:00.0``; a missing function means 0.

        Raises ValueError when the text is no PCI address or a part is out of range (slot 0-1f).
        """
        match = _FORM.fullmatch(text.strip().lower())
        if match is None:
            raise ValueError(f"{text!r} is not a PCI address like 0000:42:00.0")
        bdf = cls(
            int(match["domain"] or "0", 16),
            int(match["bus"], 16),
            int(match["slot"], 16),
            int(match["function"] or "0"),
        )
        if bdf.slot > 0x1F:
            raise ValueError(f"{text!r}: a PCI slot is 00 to 1f")
        return bdf

    def __str__(self) -> str:
        return f"{self.domain:04x}:{self.bus:02x}:{self.slot:02x}.{self.function}"

    @property
    def short(self) -> str:
        """Without the domain where that is 0, as operators write it: ``42:00.0``."""
        text = str(self)
        return text.removeprefix("0000:")
