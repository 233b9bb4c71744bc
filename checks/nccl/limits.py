"""The bandwidth that a ring of these GPUs can reach by their links: NCCL's own model of it. Pure.

expected = active NVLinks to the others x NCCL's rate per link; where any pair has no NVLink, the slowest PCIe
hop, halved where hops share an uplink or cross sockets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from checks.bdf import Bdf
from checks.data.link_rates import PCIE_LANE, nvlink_rate
from checks.gpus.dump import Gap, Gpu

SWITCH, GPU = 2, 0
"""nvmlIntNvLinkDeviceType_t"""
PXB, PHB, NODE = 20, 30, 40
"""nvmlGpuTopologyLevel_t: several PCIe switches, a host bridge, several host bridges of one NUMA node."""


@dataclass(frozen=True)
class Limit:
    """``gbytes`` per second of bus bandwidth; ``kind`` nvlink, pcie or socket; ``said`` how it comes about.

    ``unshared`` is the rate where hops that are taken as shared are not: a halved limit is a guess, and switches
    that carry both at full rate do exist.
    """

    gbytes: float
    kind: str
    said: str
    unshared: float | None = None

    @property
    def most(self) -> float:
        """What no measurement can exceed."""
        return self.unshared or self.gbytes


@dataclass(frozen=True)
class NoLimit:
    """Why no limit can be computed."""

    reason: str


def of_ring(gpus: Sequence[Gpu], p2p: Sequence[Mapping[str, Any]]) -> Limit | NoLimit:
    """The limit for two GPUs or more. ``p2p`` are NVML's pairs: a, b and the topology level ``topo``."""
    links = [_links_to_others(gpu, gpus) for gpu in gpus]
    if all(links):
        return _nvlink(gpus, links)
    return _pcie(gpus, p2p)


def of_sockets(told: object) -> Limit | NoLimit:
    """What one TCP connection each way carried between the nodes, by ``checks.nccl.sockets``; the slowest node decides.
    Nothing can exceed what several connections carried together."""
    if not isinstance(told, Mapping):
        return NoLimit("what the network carries was not measured")
    rows = list((told.get("of_node") or {}).values())
    if told.get("error") or not rows or not all(isinstance(row, Mapping) and row for row in rows):
        return NoLimit(f"the sockets' own rate was not measured: {told.get('error') or 'a node told none'}")
    counts = sorted(set.intersection(*({int(count) for count in row} for row in rows)))
    rates = {count: min(float(row[str(count)]) for row in rows) for count in counts}
    if not rates or min(rates.values()) <= 0:
        return NoLimit("the sockets' own rate was not measured: nothing came over them")
    one = rates[counts[0]]
    more = "".join(f", {count} together {rates[count]:.2f}" for count in counts[1:])
    return Limit(
        one, "socket", f"one TCP connection each way on {told.get('interface')}{more}", max(rates.values())
    )


def _nvlink(gpus: Sequence[Gpu], links: list[int]) -> Limit | NoLimit:
    rates = []
    for gpu in gpus:
        capability = gpu.numbers("nvmlDeviceGetCudaComputeCapability")
        if isinstance(capability, Gap) or len(capability) != 2:
            return NoLimit(f"the compute capability of {gpu.subject} could not be read")
        row = nvlink_rate(capability[0] * 10 + capability[1])
        if row is None:
            return NoLimit(f"no rate per NVLink is known for {gpu.name}")
        rates.append(row.gbytes)
    fewest = min(range(len(gpus)), key=lambda n: links[n] * rates[n])
    said = f"{links[fewest]} NVLinks x {rates[fewest]:g} GB/s"
    return Limit(links[fewest] * rates[fewest], "nvlink", said)


def _links_to_others(gpu: Gpu, gpus: Sequence[Gpu]) -> int:
    """Active NVLinks of ``gpu`` that lead to all the others, 0 when one of them is not reached."""
    links = gpu.struct("nvlink")
    if isinstance(links, Gap):
        return 0
    active = [link for link in links.values() if link.get("state") == 1]
    if not active:
        return 0
    if all(link.get("remote_type") == SWITCH for link in active):
        return len(active)
    others = [other for other in gpus if other.index != gpu.index]
    ends = [_remote(link) for link in active]
    if len(others) == 1 and not any(ends):
        return len(active)
    counts = [sum(end is not None and end == _address(other) for end in ends) for other in others]
    return sum(counts) if all(counts) else 0


def _remote(link: Mapping[str, Any]) -> Bdf | None:
    remote = link.get("remote")
    return _bdf(remote.get("busId")) if isinstance(remote, Mapping) else None


def _address(gpu: Gpu) -> Bdf | None:
    info = gpu.struct("nvmlDeviceGetPciInfo")
    return None if isinstance(info, Gap) else _bdf(info.get("busId"))


def _bdf(text: object) -> Bdf | None:
    try:
        return Bdf.parse(str(text).removeprefix("b:"))
    except ValueError:
        return None


def _pcie(gpus: Sequence[Gpu], p2p: Sequence[Mapping[str, Any]]) -> Limit | NoLimit:
    hops = []
    for gpu in gpus:
        generation = gpu.number("nvmlDeviceGetMaxPcieLinkGeneration")
        width = gpu.number("nvmlDeviceGetMaxPcieLinkWidth")
        if isinstance(generation, Gap) or isinstance(width, Gap) or generation not in PCIE_LANE:
            return NoLimit(f"the PCIe link of {gpu.subject} could not be read")
        hops.append((PCIE_LANE[generation] * width, f"PCIe gen{generation} x{width}"))
    slowest, said = min(hops)
    shared = _shared(gpus, p2p)
    if shared is None:
        return Limit(slowest, "pcie", f"{said} of the slowest GPU, taken as not shared: no topology in NVML")
    if shared:
        return Limit(slowest / 2, "pcie", f"half of {said}: {shared}", slowest)
    return Limit(slowest, "pcie", said)


def _shared(gpus: Sequence[Gpu], p2p: Sequence[Mapping[str, Any]]) -> str | None:
    """Why a hop is shared, "" when none is, None when NVML told no topology."""
    ours = {gpu.index for gpu in gpus}
    levels = [
        row["topo"]
        for row in p2p
        if row.get("a") in ours and row.get("b") in ours and isinstance(row.get("topo"), int)
    ]
    if not levels:
        return None
    if max(levels) >= NODE:
        return "the way crosses host bridges or sockets"
    if min(levels) <= PXB and max(levels) >= PHB:
        return "GPUs behind one PCIe switch share its uplink"
    return ""
