"""One rank of a communicator (``_probe nccl-rank``): one process, one GPU, as an engine has them.

It says each phase before it begins, so that the parent knows where it hung; the parent's deadlines hold, not
ours. Nothing here waits inside the driver or NCCL: both are asked again and again.
"""

from __future__ import annotations

import os
import statistics
import struct
import sys
import time
from pathlib import Path
from typing import Any

from checks.cuda import driver
from checks.cuda.context import Context
from checks.cuda.errors import CudaError, CudaMissing, CudaTimeout
from checks.load.busy import RESERVE
from checks.nccl import segments
from checks.nccl.binding import MAX, SUM, Nccl, NcclError, NcclMissing, loaded_file
from checks.nccl.device import Kernels
from checks.nccl.environment import of_weight
from checks.nccl.talk import begin, hear, say

REPEATS = 3
PACES = 7
ROUNDS = 3
BATCHES = 5
BATCH = 4
_SPINS = 200
"""How often NCCL is asked without a pause whether it took an order: a pause would be most of a small message's time."""
_FOREVER = 86400.0


def main() -> int:
    """0 when all went through, 1 after an error, which was said."""
    asked = begin()
    say(phase="library", pid=os.getpid())
    say(environment=_environment())
    try:
        _work(asked)
    except (NcclError, NcclMissing, CudaError, CudaMissing, CudaTimeout) as error:
        say(error=str(error), code=getattr(error, "code", None))
        return 1
    say(end=True)
    sys.stdin.readline()  # a peer may still read from this GPU's memory: all leave together
    os._exit(0)


def _environment() -> dict[str, str]:
    raw = Path("/proc/self/environ").read_bytes().split(b"\0")
    words = (word.decode(errors="replace").partition("=") for word in raw if word)
    return of_weight({name: value for name, _, value in words})


def _work(asked: dict[str, Any]) -> None:
    nccl = Nccl(asked["library"])
    say(phase="context", library=loaded_file("libnccl") or asked["library"], version=nccl.version)
    cuda = driver.load()
    cuda.init()
    gpu = cuda.context(asked["gpu"])
    free, total = gpu.mem_info()
    say(phase="id", free=free, total=total)
    if asked["rank"] == 0:
        say(id=nccl.unique_id().hex())
    identity = bytes.fromhex(hear()["id"])
    say(phase="init")
    began = time.monotonic()
    comm = nccl.begin(identity, asked["rank"], asked["nranks"])
    while not nccl.settled(comm, "ncclCommInitRankConfig"):
        time.sleep(0.002)
    say(init_s=time.monotonic() - began)
    say(segments=sorted(segments.held_by([os.getpid()])))
    if (on := nccl.device(comm)) not in (None, asked["gpu"]):
        raise NcclError(
            0, f"the communicator is on GPU {on}, this rank on GPU {asked['gpu']}", "ncclCommCuDevice"
        )
    team = Team(nccl, comm, gpu, asked)
    for size in team.sizes:
        say(phase=f"sum {size}")
        for repeat in range(REPEATS):
            wrong, first = team.sum(size // 4, f"sum {size} {2 * repeat + 1}")
            say(sum=size, repeat=repeat, wrong=wrong, first=first)
    if asked["nranks"] > 1:
        say(phase=f"pace {team.largest}")
        say(own_s=team.pace(team.largest // 4))
        for size in asked["curve"]:
            if size < team.largest:
                say(phase=f"bench {size}")
                say(curve=size, curve_s=team.bench(size // 4))
        say(phase=f"bench {team.largest}")
        say(bench=team.largest, medians_s=team.bench(team.largest // 4))


class Team:
    """The communicator at work on this rank's GPU."""

    def __init__(self, nccl: Nccl, comm: Any, gpu: Context, asked: dict[str, Any]) -> None:
        self.nccl, self.comm, self.gpu = nccl, comm, gpu
        say(phase="sum 8")
        self.rank, self.nranks, self.seed = asked["rank"], asked["nranks"], asked["seed"]
        self.budget_s = asked["budget_s"]
        self.stream = gpu.stream()
        self.kernels = Kernels(gpu)
        # Ranks have different memory free; the smallest decides, and all learn it from the first collective.
        self._small = gpu.alloc(8)
        free, _ = gpu.mem_info()
        room = -self.greatest(-float(room_of(free, shared=asked["shared"]) >> 20)) * (1 << 20)
        self.largest = max(8, min(asked["sizes"][-1], int(room)) & ~7)
        self.sizes = sorted({min(size, self.largest) for size in asked["sizes"]})
        self.source, self.target = gpu.alloc(self.largest), gpu.alloc(self.largest)

    def greatest(self, value: float) -> float:
        """The greatest of all ranks' values, by a collective."""
        raw = struct.pack("<f", value)
        self.gpu.h2d(self._small, raw)
        self.gpu.synchronize(_FOREVER)
        self._reduce(self._small, self._small, 1, MAX)
        self._wait()
        return float(struct.unpack("<f", self.gpu.read(self._small, 4, _FOREVER))[0])

    def sum(self, count: int, given: str) -> tuple[int, int | None]:
        """One all-reduce of fresh numbers, checked on this GPU: how many are wrong, and the first of them.

        ``given`` is the phase that is said once the order is given: who has not given it keeps the others waiting.
        """
        self.seed = self.seed * 1664525 + 1013904223 & 0xFFFFFFFF
        self.kernels.fill_numbers(self.source, count, self.seed, self.rank, self.stream)
        self.nccl.all_reduce(self.source, self.target, count, self.comm, self.stream)
        say(phase=given)
        self._settle()
        self._wait()
        return self.kernels.wrong_sums(self.target, count, self.seed, self.nranks)

    def pace(self, count: int) -> list[float]:
        """Seconds of this rank's own work before each collective: filling its buffer and giving the order."""
        own = []
        for _ in range(PACES):
            began = time.monotonic()
            self.kernels.fill_numbers(self.source, count, self.seed, self.rank, self.stream)
            self.gpu.synchronize(_FOREVER, self.stream)
            self.nccl.all_reduce(self.source, self.target, count, self.comm, self.stream)
            own.append(time.monotonic() - began)
            self._settle()
            self._wait()
        return own

    def bench(self, count: int) -> list[float]:
        """The median seconds of one all-reduce in each of three rounds."""
        began = time.monotonic()
        self._timed(count, 1)
        one = self.greatest((time.monotonic() - began) / 2)
        batch = BATCH if one * (BATCH + 1) * BATCHES * ROUNDS <= self.budget_s else 1
        batches = BATCHES if one * (batch + 1) * BATCHES * ROUNDS <= self.budget_s else 1
        rounds = []
        for _ in range(ROUNDS):
            rounds.append(statistics.median(self._timed(count, batch) for _ in range(batches)))
        return rounds

    def _timed(self, count: int, batch: int) -> float:
        # One ahead of the first event: orders are given while the GPU is busy, and cost nothing.
        self._reduce(self.source, self.target, count)
        start, end = self.gpu.event(), self.gpu.event()
        self.gpu.record(start, self.stream)
        for _ in range(batch):
            self._reduce(self.source, self.target, count)
        self.gpu.record(end, self.stream)
        self._wait()
        return self.gpu.elapsed(start, end) / batch

    def _reduce(self, source: int, target: int, count: int, op: int = SUM) -> None:
        self.nccl.all_reduce(source, target, count, self.comm, self.stream, op)
        self._settle()

    def _settle(self) -> None:
        # A non-blocking communicator gives its order to the stream later; until then the stream looks done.
        tries = 0
        while not self.nccl.settled(self.comm, "ncclAllReduce"):
            tries += 1
            if tries > _SPINS:
                time.sleep(0.00005)

    def _wait(self) -> None:
        self.gpu.synchronize(
            _FOREVER, self.stream, meanwhile=lambda: void(self.nccl.settled(self.comm, "ncclAllReduce"))
        )


def room_of(free: int, *, shared: bool) -> int:
    """Bytes of each of the two buffers: a quarter of what is free; beside others an eighth of all but a reserve."""
    return max(0, free - RESERVE) // 8 if shared else free // 4


def void(_: object) -> None:
    """Nothing: for a call whose answer is only its exception."""
