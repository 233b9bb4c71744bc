"""What a GPU board must have, by the name NVML gives it. A board that is in no row gets no expectation."""

from __future__ import annotations

import re
from typing import NamedTuple


class Board(NamedTuple):
    """``name`` is a regular expression that must match NVML's name as a whole, without the word NVIDIA.

    ``links`` is how many NVLinks must be active where the GPU is one of several (None: a bridge is optional or
    there is no NVLink), ``fabric`` whether an NVSwitch fabric must be up, ``ecc`` whether ECC must be on.
    ``cluster``: the fabric spans machines, so a completed one has a cluster UUID. ``runs_at_max``: its default
    application clock is its greatest, so that a lower one was set by somebody (an A100 boosts above its own; where
    the driver tells the default, that counts). ``nvlink``: NVLink version. ``bandwidth``: of its memory, GB/s (1e9).
    ``generation`` and ``lanes``: the board's PCIe. ``watts``: default
    power limit. None wherever no datasheet was at hand.
    """

    name: str
    links: int | None
    fabric: bool
    ecc: bool
    source: str
    cluster: bool = False
    runs_at_max: bool = False
    nvlink: int | None = None
    bandwidth: int | None = None
    generation: int | None = None
    lanes: int | None = None
    watts: int | None = None


_NVLINK = "https://www.nvidia.com/en-us/data-center/nvlink/"
_FABRIC = "Fabric Manager User Guide: NVSwitch based HGX and DGX systems"
_HOPPER = "NVIDIA H100 datasheet"
_AMPERE = "NVIDIA A100 datasheet"

BOARDS = (
    Board(r"H100 80GB HBM3", 18, True, True, f"{_HOPPER}; {_FABRIC}", False, True, 4, 3350, 5, 16, 700),
    Board(r"H200", 18, True, True, f"NVIDIA H200 datasheet; {_FABRIC}", False, True, 4, 4800, 5, 16, 700),
    Board(r"H800", 8, True, True, f"{_FABRIC}; 8 links of 50 GB/s", False, True, 4, 3350, 5, 16, 700),
    Board(r"H20", 18, True, True, f"{_FABRIC}; 18 links, 900 GB/s", False, True, 4, 4000, 5, 16, 500),
    Board(r"B200", 18, True, True, f"{_NVLINK}; {_FABRIC}", False, True, 5, 8000, None, 16, 1000),
    Board(r"B300.*", 18, True, True, f"{_NVLINK}; {_FABRIC}", False, True, 5, 8000, None, 16, None),
    Board(r"GB[23]00", 18, True, True, f"{_NVLINK}; leptonai/gpud#1108", True, False, 5, 8000),
    # Ampere's fabric manager reports no state through NVML: only the links can be judged.
    Board(r"A100-SXM4-40GB", 12, False, True, _AMPERE, False, False, 3, 1555, 4, 16, 400),
    Board(r"A100-SXM4-80GB", 12, False, True, _AMPERE, False, False, 3, 2039, 4, 16, 400),
    Board(r"A100-SXM4-\d+GB", 12, False, True, _AMPERE, False, False, 3),
    Board(r"A800-SXM4-.*", 8, False, True, "NVIDIA A800: 8 of A100's 12 links", False, False, 3, None, 4, 16),
    Board(
        r"(Tesla )?V100-SXM\d?-\d+GB.*",
        6,
        False,
        True,
        "NVIDIA V100 datasheet",
        nvlink=2,
        bandwidth=900,
        generation=3,
        lanes=16,
        watts=300,
    ),
    Board(
        r"H100 PCIe", None, False, True, f"{_HOPPER}; bridges are optional", False, True, 4, 2000, 5, 16, 350
    ),
    Board(
        r"H100 NVL", None, False, True, f"{_HOPPER}; bridges are optional", False, True, 4, 3900, 5, 16, 400
    ),
    Board(r"H200 NVL", None, False, True, "NVIDIA H200 datasheet", False, True, 4, 4800, 5, 16, 600),
    Board(
        r"A100-PCIE-40GB",
        None,
        False,
        True,
        f"{_AMPERE}; bridges are optional",
        False,
        False,
        3,
        1555,
        4,
        16,
        250,
    ),
    Board(
        r"A100 80GB PCIe",
        None,
        False,
        True,
        f"{_AMPERE}; bridges are optional",
        False,
        False,
        3,
        1935,
        4,
        16,
        300,
    ),
    Board(
        r"(A100|A800|H100|H200|H800)( |-).*(PCIe|PCIE|NVL).*",
        None,
        False,
        True,
        "product briefs: bridges are optional",
    ),
    Board(
        r"(Tesla )?V100-PCIE-\d+GB.*",
        None,
        False,
        True,
        "NVIDIA V100 datasheet",
        bandwidth=900,
        generation=3,
        lanes=16,
        watts=250,
    ),
    Board(
        r"A30",
        None,
        False,
        True,
        "NVIDIA A30 datasheet",
        nvlink=3,
        bandwidth=933,
        generation=4,
        lanes=16,
        watts=165,
    ),
    Board(
        r"A40",
        None,
        False,
        False,
        "NVIDIA A40 datasheet",
        nvlink=3,
        bandwidth=696,
        generation=4,
        lanes=16,
        watts=300,
    ),
    Board(
        r"A10", None, False, False, "NVIDIA A10 datasheet", bandwidth=600, generation=4, lanes=16, watts=150
    ),
    Board(r"A2", None, False, False, "NVIDIA A2 datasheet", bandwidth=200, generation=4, lanes=8, watts=60),
    Board(
        r"L40S", None, False, False, "NVIDIA L40S datasheet", bandwidth=864, generation=4, lanes=16, watts=350
    ),
    Board(
        r"L40", None, False, False, "NVIDIA L40 datasheet", bandwidth=864, generation=4, lanes=16, watts=300
    ),
    Board(r"L4", None, False, False, "NVIDIA L4 datasheet", bandwidth=300, generation=4, lanes=16, watts=72),
    Board(
        r"(Tesla )?T4",
        None,
        False,
        False,
        "NVIDIA T4 datasheet",
        bandwidth=320,
        generation=3,
        lanes=16,
        watts=70,
    ),
    Board(r"A16", None, False, False, "product brief; nothing on ECC"),
    Board(
        r"RTX A6000",
        None,
        False,
        False,
        "NVIDIA RTX A6000 datasheet: ECC is off as delivered",
        nvlink=3,
        bandwidth=768,
        generation=4,
        lanes=16,
        watts=300,
    ),
    Board(
        r"RTX 6000 Ada Generation",
        None,
        False,
        False,
        "NVIDIA RTX 6000 Ada datasheet",
        bandwidth=960,
        generation=4,
        lanes=16,
        watts=300,
    ),
    Board(
        r"RTX PRO 6000 Blackwell Workstation Edition",
        None,
        False,
        False,
        "NVIDIA RTX PRO 6000 Blackwell datasheet",
        bandwidth=1792,
        generation=5,
        lanes=16,
        watts=600,
    ),
    Board(
        r"RTX PRO 6000 Blackwell Server Edition",
        None,
        False,
        False,
        "NVIDIA RTX PRO 6000 Blackwell Server datasheet",
        bandwidth=1597,
        generation=5,
        lanes=16,
        watts=600,
    ),
    Board(
        r"RTX A\d000|RTX \d000 Ada.*|RTX PRO .*",
        None,
        False,
        False,
        "product briefs: ECC is off as delivered",
    ),
    Board(
        r"GeForce RTX 3090",
        None,
        False,
        False,
        "GA102 whitepaper",
        nvlink=3,
        bandwidth=936,
        generation=4,
        lanes=16,
        watts=350,
    ),
    Board(
        r"GeForce RTX 4090",
        None,
        False,
        False,
        "AD102 whitepaper",
        bandwidth=1008,
        generation=4,
        lanes=16,
        watts=450,
    ),
    Board(
        r"GeForce RTX 5090",
        None,
        False,
        False,
        "RTX Blackwell whitepaper",
        bandwidth=1792,
        generation=5,
        lanes=16,
        watts=575,
    ),
)

DRIVER_FLOORS = {
    10: ("Blackwell", (570,), "NVIDIA data center driver 570 release notes: first branch for Blackwell")
}
"""NVML architecture number (NVML_DEVICE_ARCH_*) -> name, first driver branch that knows it, source."""

_INTEGRATED = r"GB10|.*\b(Thor|Orin|Xavier)\b.*"
"""GPUs that share the memory of their host's chip: NVML gives them no memory size and no PCIe link that means
anything (Syllo/nvtop#411, XuehaiPan/nvitop#208, inureyes/all-smi#146)."""


def board_of(name: str) -> Board | None:
    """The row of a GPU name such as ``NVIDIA H100 80GB HBM3``."""
    bare = name.removeprefix("NVIDIA ").strip()
    return next((board for board in BOARDS if re.fullmatch(board.name, bare)), None)


def integrated(name: str) -> bool:
    """Whether the GPU is part of its host's chip, such as ``NVIDIA GB10``."""
    return re.fullmatch(_INTEGRATED, name.removeprefix("NVIDIA ").strip()) is not None
