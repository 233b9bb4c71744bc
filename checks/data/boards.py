"""What a GPU board must have, by the name NVML gives it. A board that is in no row gets no expectation.

``links`` is how many NVLinks must be active where the GPU is one of several (None: a bridge is optional or
there is no NVLink), ``fabric`` whether an NVSwitch fabric must be up, ``ecc`` whether ECC must be on.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Board(NamedTuple):
    """``name`` is a regular expression that must match NVML's name as a whole, without the word NVIDIA."""

    name: str
    links: int | None
    fabric: bool
    ecc: bool
    source: str


_NVLINK = "https://www.nvidia.com/en-us/data-center/nvlink/"
_FABRIC = "Fabric Manager User Guide: NVSwitch based HGX and DGX systems"

BOARDS = (
    Board(r"H100 80GB HBM3|H200", 18, True, True, f"{_NVLINK}; {_FABRIC}"),
    Board(r"B200", 18, True, True, f"{_NVLINK}; {_FABRIC}"),
    # Ampere's fabric manager reports no state through NVML: only the links can be judged.
    Board(r"A100-SXM4-\d+GB", 12, False, True, "NVIDIA A100 whitepaper: 12 third-generation links"),
    Board(
        r"(Tesla )?V100-SXM\d?-\d+GB.*", 6, False, True, "NVIDIA V100 whitepaper: 6 second-generation links"
    ),
    Board(
        r"(A100|H100|H200)( |-).*(PCIe|PCIE|NVL).*", None, False, True, "product briefs: bridges are optional"
    ),
    Board(
        r"L4|L40|L40S|A2|A10|A16|A30|A40|(Tesla )?T4", None, False, False, "product briefs; nothing on ECC"
    ),
    Board(
        r"RTX A\d000|RTX \d000 Ada.*|RTX PRO .*",
        None,
        False,
        False,
        "product briefs: ECC is off as delivered",
    ),
)

DRIVER_FLOORS = {
    10: ("Blackwell", (570,), "NVIDIA data center driver 570 release notes: first branch for Blackwell")
}
"""NVML architecture number (NVML_DEVICE_ARCH_*) -> name, first driver branch that knows it, source."""


def board_of(name: str) -> Board | None:
    """The row of a GPU name such as ``NVIDIA H100 80GB HBM3``."""
    bare = name.removeprefix("NVIDIA ").strip()
    return next((board for board in BOARDS if re.fullmatch(board.name, bare)), None)
