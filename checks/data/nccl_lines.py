"""Warnings of NCCL that tell their cause, and what mends it. The first row that matches counts."""

from __future__ import annotations

import re
from typing import NamedTuple


class NcclLine(NamedTuple):
    """``pattern`` is searched for in a warning; ``workaround`` goes on without mending it, None: there is none."""

    pattern: str
    cause: str
    fix: str
    workaround: str | None
    source: str


NCCL_LINES = (
    NcclLine(
        r"No space left on device|posix_fallocate failed|shared memory segment",
        "/dev/shm is too small for NCCL's segments (Docker gives 64 MB unless told otherwise)",
        "give the container 1 GiB of /dev/shm or more: --shm-size=1g, or a tmpfs mount in its configuration",
        "NCCL_SHM_DISABLE=1",
        "NVIDIA/nccl#342, #290; vllm-project/vllm#1710",
    ),
    NcclLine(
        r"ibv_(reg_mr|create_cq|create_qp)\S* failed.*(Cannot allocate memory|ENOMEM)",
        "the limit of locked memory is too low for InfiniBand (ulimit -l)",
        "LimitMEMLOCK=infinity in the service's unit, or memlock unlimited in limits.conf",
        "NCCL_IB_DISABLE=1",
        "NVIDIA/nccl-tests#206",
    ),
    NcclLine(
        r"P2P is disabled between NVLINK connected GPUs",
        "the NVLinks are up, yet the driver allows no peer access between these GPUs: a hardware or fabric fault",
        "provcheck gpus for the links and the fabric; reset all GPUs together; call service if it stays",
        "NCCL_IGNORE_DISABLED_P2P=1 goes on without NVLink",
        "NVIDIA/nccl#2329",
    ),
    NcclLine(
        r"nvls\.cc.*(invalid argument|Cuda failure)|NVLS.*(failed|Cuda failure)",
        "NVLink multicast failed: the NVSwitch fabric is not well, though the links look active",
        "systemctl status nvidia-fabricmanager; it must have exactly the driver's version; then restart it",
        "NCCL_NVLS_ENABLE=0",
        "NVIDIA/nccl#1562",
    ),
    NcclLine(
        r"Mismatched NCCL version detected|NCCL version mismatch",
        "the ranks load NCCL of different versions",
        "install the same engine environment on every node; name it with --env or --library",
        None,
        "NVIDIA/nccl src/init.cc (initTransportsRank)",
    ),
    NcclLine(
        r"system not yet initialized|Cuda failure 802",
        "CUDA error 802: the NVSwitch fabric was not set up when the program started",
        "start nvidia-fabricmanager of the driver's version, wait for 'provcheck gpus' to be green",
        None,
        "pytorch/pytorch#35710",
    ),
    NcclLine(
        r"Cuda failure (2 )?'?out of memory",
        "a GPU has too little free memory for NCCL's buffers",
        "stop what holds the memory (provcheck gpus names it)",
        None,
        "NVIDIA/nccl docs, troubleshooting",
    ),
    NcclLine(
        r"Cuda failure (719|700|715|2?14|46)|uncorrectable ECC|NVLink error|illegal memory access",
        "a GPU reported a hardware or memory error while it worked",
        "read the kernel log for Xid lines (provcheck gpus does)",
        None,
        "NVIDIA Xid catalogue",
    ),
    NcclLine(
        r"no socket interface found|Bootstrap : no socket",
        "NCCL found no network interface for its bootstrap: NCCL_SOCKET_IFNAME excludes all, or there is only lo",
        "name one that is up: NCCL_SOCKET_IFNAME=<interface>; on a host without a network, lo",
        "NCCL_SOCKET_IFNAME=lo on one host",
        "NVIDIA/nccl src/bootstrap.cc (bootstrapNetInit)",
    ),
    NcclLine(
        r"Connect to .* failed|Connection (refused|timed out)|No route to host|socketStartConnect",
        "a rank cannot reach another by the network that NCCL chose",
        "open the ports between the nodes, or choose the interface: NCCL_SOCKET_IFNAME",
        None,
        "NVIDIA/nccl src/misc/socket.cc",
    ),
    NcclLine(
        r"CUDA driver version is insufficient|Cuda failure 35",
        "the driver is older than what this NCCL was built for",
        "install a newer driver, or an engine built for an older CUDA",
        None,
        "CUDA compatibility guide",
    ),
)


def row_of(warning: str) -> NcclLine | None:
    """The row that knows a warning."""
    return next((row for row in NCCL_LINES if re.search(row.pattern, warning, re.I)), None)
