"""What a GPU at work is measured against: limits of the hardware, and the share of them that must be reached."""

from __future__ import annotations

import re
from typing import NamedTuple

PCIE_LANE_GBPS = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938, 6: 7.563}
"""GB/s of one lane, one way, by generation: PCI Express base specifications, line coding taken off."""


class Band(NamedTuple):
    """``good`` and above passes, below ``bad`` fails, between them warns. Shares of the limit."""

    good: float
    bad: float
    source: str


COPY = Band(
    0.80,
    0.60,
    "real copies reach 85 to 89 % of the lanes: H200 55.4 of 63.0 GB/s (stas00/ml-engineering), "
    "Azure azurehpc-health-checks floor for H100 48 GB/s = 76 %",
)
MEMORY = Band(
    0.70,
    0.55,
    "copy and triad kernels reach 85 to 93 % of the data sheet (BabelStream on V100, A100, H100); "
    "in-band ECC of GDDR boards costs up to 15 % more",
)
SIBLING = Band(
    0.85, 0.0, "identical GPUs in one machine differ by under 5 % (stas00/ml-engineering, H200 x 8)"
)
"""Share of the middle of the others of the same name, below which a GPU stands out."""

ONE_WAY = 0.75
"""Share of the other direction below which one direction of a link stands out: both reach 85 to 89 % of the
lanes on a sound link (stas00/ml-engineering, H200 55.4 and 55.1 GB/s)."""

CLOCK_FLOOR = 0.50
"""Share of the highest SM clock that a GPU at work keeps; less without a reason is a fault. Under its power cap
an H200 keeps above 70 % with the heaviest matrix products (NVIDIA/DCGM targeted power)."""

TRIES = 3
"""Batches at least behind a verdict on a rate; the best one counts: Azure adds retries for jitter."""


class MemoryRate(NamedTuple):
    """``name``: regular expression for the whole of NVML's name without NVIDIA. ``gbps`` 10**9 bytes/s."""

    name: str
    gbps: float
    source: str


MEMORY_RATES = (
    MemoryRate(r"B[23]00.*|GB[23]00.*", 8000.0, "NVIDIA HGX B200 data sheet: 8 TB/s"),
    MemoryRate(r"H200.*", 4800.0, "NVIDIA H200 data sheet: 4.8 TB/s"),
    MemoryRate(r"GH200 144G.*", 4900.0, "NVIDIA GH200 data sheet: 4.9 TB/s"),
    MemoryRate(r"GH200.*", 4000.0, "NVIDIA GH200 data sheet: 4 TB/s"),
    MemoryRate(r"H100 NVL", 3900.0, "NVIDIA H100 data sheet: 3.9 TB/s"),
    MemoryRate(r"H100 PCIe", 2000.0, "NVIDIA H100 PCIe product brief: 2 TB/s"),
    MemoryRate(r"H100 80GB HBM3", 3350.0, "NVIDIA H100 data sheet: 3.35 TB/s"),
    MemoryRate(r"A100-SXM4-80GB", 2039.0, "NVIDIA A100 data sheet"),
    MemoryRate(r"A100 80GB PCIe", 1935.0, "NVIDIA A100 data sheet"),
    MemoryRate(r"A100.*40GB", 1555.0, "NVIDIA A100 data sheet"),
    MemoryRate(r"A30", 933.0, "NVIDIA A30 data sheet"),
    MemoryRate(r"A40", 696.0, "NVIDIA A40 data sheet"),
    MemoryRate(r"A10", 600.0, "NVIDIA A10 data sheet"),
    MemoryRate(r"L40S?", 864.0, "NVIDIA L40 and L40S data sheets"),
    MemoryRate(r"L4", 300.0, "NVIDIA L4 data sheet"),
    MemoryRate(r"(Tesla )?T4", 320.0, "NVIDIA T4 data sheet"),
    MemoryRate(r"(Tesla )?V100-(SXM2|PCIE)-\d+GB", 900.0, "NVIDIA V100 data sheet"),
    MemoryRate(r"RTX A6000", 768.0, "NVIDIA RTX A6000 data sheet"),
    MemoryRate(r"RTX 6000 Ada Generation", 960.0, "NVIDIA RTX 6000 Ada data sheet"),
    MemoryRate(r"RTX PRO 6000 Blackwell.*", 1792.0, "NVIDIA RTX PRO 6000 Blackwell data sheet"),
    MemoryRate(r"GeForce RTX 3090", 936.0, "NVIDIA GeForce RTX 3090 specifications"),
    MemoryRate(r"GeForce RTX 4090", 1008.0, "NVIDIA GeForce RTX 4090 specifications"),
    MemoryRate(r"GeForce RTX 5090", 1792.0, "NVIDIA GeForce RTX 5090 specifications"),
)


def memory_rate(name: str) -> MemoryRate | None:
    """The row of a GPU name such as ``NVIDIA H200``."""
    bare = name.removeprefix("NVIDIA ").strip()
    return next((row for row in MEMORY_RATES if re.fullmatch(row.name, bare)), None)


def computed_memory_rate(clock_mhz: float, bus_bits: float) -> float:
    """GB/s of a memory bus that moves two words a clock, as NVML counts clocks for HBM and GDDR alike.

    H200: 3201 MHz x 2 x 6016 bit = 4814 GB/s, data sheet 4800; RTX 3090: 9751 x 2 x 384 = 936.
    """
    return clock_mhz * 2 * bus_bits / 8 / 1000


def pcie_limit(generation: int, width: int) -> float | None:
    """GB/s one way, None for a generation without a row."""
    lane = PCIE_LANE_GBPS.get(generation)
    return None if lane is None or width <= 0 else lane * width
