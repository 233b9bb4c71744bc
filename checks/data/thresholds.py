"""Where a finding turns from pass to warn or fail, for the pages; a test holds them against the rules."""

from __future__ import annotations

THRESHOLDS: dict[str, str] = {
    "gpu.ecc": "fail: one uncorrected error since boot or more than in the earlier record, SRAM over the vendor's "
    "threshold, off on a board that has it on; warn: one in its life. Corrected errors are no finding.",
    "gpu.row_remap": "fail: pending, failed, or one row more than in the earlier record; warn: a bank with no "
    "spare row.",
    "gpu.retired_pages": "fail: pending, 62 pages of the 64 that the table holds, or one more for a double-bit error "
    "than in the earlier record.",
    "gpu.pcie_width": "fail: fewer lanes than slot and board have, while it works or beside a sibling that has all; "
    "warn: the same while idle and alone, or a slot with fewer lanes than the board.",
    "gpu.pcie_generation": "warn: slot and board reach less together than the board alone.",
    "gpu.pcie_replay": "with --since only. warn: one more; fail: more than 80 (DCGM's max_pcie_replays).",
    "gpu.bar1": "warn: none, less than a sibling's, under 256 MiB beside other GPUs, less than the memory of a "
    "data-centre board.",
    "gpu.temperature": "fail: core at its slowdown temperature, memory over its limit; warn: core at its highest "
    "operating temperature. The limits are the board's own.",
    "gpu.throttle": "fail: HW thermal slowdown, HW slowdown, power brake; warn: SW thermal slowdown, power cap while "
    "idle, 1 % of the time lost to heat or power since the earlier record.",
    "gpu.power_limit": "warn: below the board's default.",
    "gpu.clocks": "warn: application clock below a sibling's or below the greatest on boards that run at it by "
    "default; 80 % of the application clock or of a sibling's under the same work.",
    "gpu.memory": "fail: less free than --needs; warn: less memory than a sibling.",
    "gpu.processes": "warn: more than 1.5 GiB held and no process to be seen.",
    "nvlink.errors": "with --since: fail for one recovery more, warn for one replay or CRC error more; without: warn "
    "for a recovery, or more than 1000 repaired errors on one link and a hundredth on its others.",
    "fabric.state": "pass: state completed (3), status 0, no bad group in the health mask; unknown: in progress; fail: "
    "in progress in the earlier record too.",
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
