"""What health checks of GPUs look at, put together from fifteen tools, and the finding that gives the verdict here.

The tools: DCGM, nccl-tests, nvbandwidth, gpud, Azure's health checks, NHC, gpu-operator, all_reduce_bench, imbue
cluster-health, GCM, NVSentinel, Google's cluster-health-scanner, HyperPod, nvidia-smi, gpu-burn.
"""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """``what`` is looked at, ``how`` in a few words, and the ids that give its verdict."""

    what: str
    how: str
    ids: tuple[str, ...]


COVERAGE = (
    Row("How many GPUs there are", "against the PCI bus and --expect", ("gpu.count", "gpu.lost")),
    Row(
        "Driver and user-space library fit",
        "versions of kernel module and libraries",
        ("driver.loaded", "driver.library", "driver.floor", "driver.responds", "driver.adapter_init"),
    ),
    Row(
        "Memory errors that were not corrected",
        "volatile, aggregate, SRAM threshold, pending mode",
        ("gpu.ecc", "load.ecc"),
    ),
    Row("Row remapping", "pending, failed, grown since a record", ("gpu.row_remap", "gpu.growth")),
    Row("Retired pages", "GPUs before Ampere", ("gpu.retired_pages",)),
    Row("The action that the driver itself asks for", "none, reset, drain, reboot", ("gpu.recovery",)),
    Row("Xid in the kernel log", "since boot and since the last reset", ("gpu.xid", "node.xid")),
    Row(
        "The rest of the kernel log",
        "PCIe errors (AER), the driver's own words",
        ("pcie.errors", "driver.log"),
    ),
    Row(
        "PCIe width and generation",
        "at rest against siblings, under load against the limit",
        ("gpu.pcie_width", "gpu.pcie_generation", "load.pcie_width", "load.pcie_generation"),
    ),
    Row("PCIe replays", "count, and growth since a record", ("gpu.pcie_replay",)),
    Row(
        "NVLinks that are down or missing",
        "each link, and GPUs against each other",
        ("nvlink.state", "nvlink.symmetry"),
    ),
    Row("NVLink error counters", "replay, recovery, CRC", ("nvlink.errors",)),
    Row("Throttling", "reasons now and the time they took", ("gpu.throttle", "load.clocks")),
    Row("Power limit below the default", "per GPU", ("gpu.power_limit",)),
    Row("Temperature", "against the GPU's own limits", ("gpu.temperature", "load.temperature")),
    Row("Clocks that somebody set", "application and locked clocks", ("gpu.clocks", "load.clocks")),
    Row("Persistence mode", "per GPU", ("gpu.persistence",)),
    Row("MIG and compute mode", "against the plan", ("gpu.mig", "gpu.compute_mode")),
    Row("Processes and memory already held", "before a launch", ("gpu.processes", "gpu.memory")),
    Row("BAR1", "size", ("gpu.bar1",)),
    Row(
        "GSP firmware",
        "mode and version, against the driver and across GPUs",
        ("gpu.gsp", "gpu.vbios", "gpu.inforom", "gpu.identity"),
    ),
    Row(
        "Fabric and its manager",
        "state and status, SXid, the service",
        ("fabric.state", "fabric.manager", "fabric.sxid"),
    ),
    Row("What pairs can do by NVML", "the peer matrix", ("pcie.p2p",)),
    Row("Whether a peer copy arrives intact", "every pair, verified at its destination", ("nccl.peer_copy",)),
    Row("NUMA and CPU affinity", "per GPU", ("gpu.numa",)),
    Row("IOMMU and ACS", "what sends peer traffic through the root", ("node.iommu", "pcie.acs")),
    Row(
        "/dev/shm and memlock of this very process",
        "in the container that will run",
        ("node.shm", "node.memlock", "node.device_nodes", "node.cgroup"),
    ),
    Row("peermem and GPUDirect RDMA", "where InfiniBand is", ("driver.peermem",)),
    Row(
        "Compute under load",
        "clocks and results against a reference",
        ("load.compute", "load.tensor", "load.clocks"),
    ),
    Row("Bandwidth of the GPU's memory", "under load", ("load.memory_bandwidth",)),
    Row("Copy rates to and from the host", "both ways, as a ratio of the link", ("load.h2d", "load.d2h")),
    Row(
        "All-reduce bandwidth",
        "as a ratio of the computed limit, with the transport used",
        ("nccl.busbw", "nccl.transport"),
    ),
    Row(
        "All-reduce over several nodes",
        "each against each finds the bad one",
        ("nccl.node", "nccl.own_gpu", "nccl.init"),
    ),
    Row(
        "Hangs and time limits",
        "every probe has a deadline, and a hang is a finding",
        ("driver.responds", "nccl.hang", "nccl.workaround", "nccl.crash", "node.nccl_crash", "load.start"),
    ),
    Row("The one that is slower than the rest", "by rank", ("nccl.slow_rank",)),
    Row(
        "Wrong results that nobody reports",
        "patterns, sums and copies on fresh data",
        ("load.compute", "load.memory_pattern", "load.copy_integrity", "nccl.sums"),
    ),
    Row(
        "Environment variables that spoil a run",
        "of this process and of the service",
        ("node.environment", "nccl.environment"),
    ),
)
