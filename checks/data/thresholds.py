"""Where a finding turns from pass to warn or fail, for the pages; a test holds them against the rules."""

from __future__ import annotations

THRESHOLDS: dict[str, str] = {
    "gpu.temperature": "fail at or above the GPU's own slowdown temperature, warn at or above its highest operating "
    "one; a margin counts only where no limit is told.",
    "gpu.pcie_replay": "only growth since the record of --since counts: warn for any, fail above 80.",
    "gpu.retired_pages": "a full table is 62 pages.",
    "gpu.clocks": "warn below 0.8 of the fastest sibling while both are at work (50 % utilisation or more).",
    "gpu.memory": "up to 1.5 GiB with no process is the driver's own.",
    "nvlink.errors": "one link with more than 1000 repaired errors, a hundred times those of every other link.",
    "node.shm": "for two GPUs or more: fail below 256 MiB free, warn below 1 GiB; for one: 16 and 64 MiB.",
    "node.memlock": "with an RDMA device in use: fail below 64 MiB, warn below unlimited.",
    "load.h2d": "pass from 0.80 of generation x lanes at the link's maximum, fail below 0.60.",
    "load.d2h": "pass from 0.80 of generation x lanes at the link's maximum, fail below 0.60.",
    "load.memory_bandwidth": "pass from 0.70 of the data sheet's rate, fail below 0.55; identical GPUs: warn below "
    "0.85 of the middle of the others.",
    "load.clocks": "warn below 0.50 of the highest clock; fail when it is slowed for heat or power supply.",
    "nccl.busbw": "NVLink: pass from 0.85 of what NCCL can make of the links, fail below 0.75. PCIe: pass from 0.40 of "
    "the slowest hop, fail below 0.25. Judged from 1 GiB on only: a healthy pair reads 0.60 at 16 MiB.",
    "nccl.slow_rank": "later than the others by 2.0 times and by 2 ms.",
}
