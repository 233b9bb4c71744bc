"""How much a process that uses GPUs must be given: rows by the number of GPUs."""

from __future__ import annotations

from typing import NamedTuple

MIB, GIB = 1 << 20, 1 << 30


class Shared(NamedTuple):
    """/dev/shm for work on at least ``gpus`` GPUs: less than ``fails`` bytes free fails, less than ``warns`` warns."""

    gpus: int
    fails: int
    warns: int
    source: str


SHARED = (
    Shared(2, 256 * MIB, GIB, "NVIDIA/nccl#342 and #290: NCCL's buffers of a few ranks; Docker gives 64 MiB"),
    Shared(1, 16 * MIB, 64 * MIB, "message queues between an engine's own processes; Docker gives 64 MiB"),
)
"""From many GPUs to few: the first row that fits holds."""

MEMLOCK_FAILS, MEMLOCK_SOURCE = (
    64 * MIB,
    "NVIDIA/nccl-tests#206: ibv_reg_mr fails with 8 MiB; NCCL asks for unlimited",
)
"""With an RDMA device in use and no CAP_IPC_LOCK: below it fails, below unlimited warns."""
