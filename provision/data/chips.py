"""From the code name of an NVIDIA chip (``GA102GL``) to its architecture, for listings that have names and no ids."""

from __future__ import annotations

import re

from provision.data.gpu_arch import ARCHITECTURES, NEWER, Architecture

SOURCE = "NVIDIA's code names as the public pci.ids list writes them, 2026-10"

PREFIXES = {
    "GF": "fermi",
    "GK": "kepler",
    "GM": "maxwell",
    "GP": "pascal",
    "GV": "volta",
    "TU": "turing",
    "GA": "ampere",
    "AD": "ada",
    "GH": "hopper",
    "GB": "blackwell",
}
_CODE = re.compile(r"\b(G[FKMPVAHBR]|TU|AD)\d{2}[0-9A-Z]\w*")
_GRACE = re.compile(r"\bGH200\b")


def architecture_of_name(name: str) -> Architecture | None:
    """The architecture of ``NVIDIA Corporation GA106 [GeForce RTX 3060]``; None where the name has no code."""
    code = _CODE.search(name)
    if code is None:
        return None
    wanted = "grace hopper" if _GRACE.search(name) else PREFIXES.get(code[1])
    return next((row for row in ARCHITECTURES if row.name == wanted), NEWER)
