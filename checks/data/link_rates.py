"""What NCCL's own model gives a link: the rate that a ring can reach, per NVLink and per PCIe lane."""

from __future__ import annotations

from typing import NamedTuple


class LinkRate(NamedTuple):
    """``sm``: lowest compute capability that the row holds for, as major * 10 + minor; GB/s per NVLink."""

    sm: int
    gbytes: float
    source: str


_TOPO = "NVIDIA/nccl src/graph/topo.h, {}; chosen by ncclTopoNVLinkBw"

NVLINK = (
    LinkRate(60, 18.0, _TOPO.format("SM60_NVLINK_BW")),
    LinkRate(70, 20.0, _TOPO.format("SM70_NVLINK_BW")),
    LinkRate(80, 20.0, _TOPO.format("SM80_NVLINK_BW")),
    LinkRate(86, 12.0, _TOPO.format("SM86_NVLINK_BW")),
    LinkRate(90, 20.6, _TOPO.format("SM90_NVLINK_BW")),
    LinkRate(100, 40.1, _TOPO.format("SM100_NVLINK_BW")),
)
"""Sorted by ``sm``. 8.6 is the GA102 bridge; 8.7 and 8.9 have no NVLink that NCCL gives a rate of its own."""

PCIE_LANE = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938, 6: 7.563}
"""PCIe generation -> GB/s per lane, one way, after encoding (PCI-SIG base specifications)."""


def nvlink_rate(sm: int) -> LinkRate | None:
    """The row for a compute capability such as 90, None for a GPU older than NVLink."""
    return next((row for row in reversed(NVLINK) if row.sm <= sm), None)
