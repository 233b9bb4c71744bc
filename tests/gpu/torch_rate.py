"""The rate of torch.distributed's all-reduce over this machine's GPUs, to hold provcheck's own against.

usage: torch_rate.py GPUS GREATEST-BYTES        one JSON line per size: bytes, us, busbw (GB/s)

The same messages as ``provcheck nccl --curve``: fp32, from 8 bytes on, each size twice the one before; best of three
rounds. Only PyTorch is needed. NVLink multicast must be off: each rank looks before it does anything with the GPUs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

OFF = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NVSHMEM_DISABLE_NVLS": "1"}
ROUNDS, TIMES, BEFORE = 3, 20, 5
SECONDS = 150


def unset(environ: bytes) -> list[str]:
    """The variables that do not keep multicast off in what /proc/PID/environ holds."""
    told = dict(word.decode(errors="replace").partition("=")[::2] for word in environ.split(b"\0") if word)
    return [name for name, value in OFF.items() if told.get(name) != value]


def rank(number: int, ranks: int, greatest: int) -> None:
    if wrong := unset(Path("/proc/self/environ").read_bytes()):
        raise SystemExit(f"NVLink multicast is not off here: {', '.join(wrong)}")
    import torch
    import torch.distributed as dist

    torch.cuda.set_device(number)
    dist.init_process_group("nccl", rank=number, world_size=ranks)
    data = torch.ones(greatest // 4, dtype=torch.float32, device="cuda")
    size = 8
    while size <= greatest:
        part = data[: size // 4]
        part.fill_(1.0)
        for _ in range(BEFORE):
            dist.all_reduce(part)
        seconds = []
        for _ in range(ROUNDS):
            dist.barrier(device_ids=[number])
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            dist.all_reduce(part)
            start.record()
            for _ in range(TIMES):
                dist.all_reduce(part)
            end.record()
            torch.cuda.synchronize()
            slowest = torch.tensor([start.elapsed_time(end) / TIMES / 1e3], device="cuda")
            dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
            seconds.append(slowest.item())
        if number == 0:
            rate = size / min(seconds) / 1e9 * 2 * (ranks - 1) / ranks
            print(json.dumps({"bytes": size, "us": min(seconds) * 1e6, "busbw": rate}), flush=True)  # noqa: T201
        size *= 2
    dist.destroy_process_group()


def main(ranks: int, greatest: int) -> int:
    there = {**os.environ, **OFF, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29577"}
    words = [sys.executable, __file__]
    running = [
        subprocess.Popen([*words, "rank", str(n), str(ranks), str(greatest)], env=there) for n in range(ranks)
    ]
    end = time.monotonic() + SECONDS
    try:
        while any(process.poll() is None for process in running):
            if any(process.poll() for process in running) or time.monotonic() > end:
                return 1
            time.sleep(0.05)
        return max(abs(process.returncode) for process in running)
    finally:
        for process in running:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)


if __name__ == "__main__":
    if sys.argv[1] == "rank":
        rank(*map(int, sys.argv[2:5]))
    else:
        sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
