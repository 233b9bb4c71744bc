"""What the rules of ``provcheck nccl`` may look at, and the names they give to GPUs, ranks and sizes. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from checks.gpus.dump import Gap, Gpu
from checks.nccl import debuglog
from checks.nccl.debuglog import Log
from checks.nccl.measured import Measured, Rank, Run

ORDER = ("start", "library", "context", "id", "init", "sum", "pace", "bench", "end")


@dataclass(frozen=True)
class Scene:
    """``gpus`` and ``p2p`` as NVML told them, empty when it did not."""

    measured: Measured
    gpus: Sequence[Gpu] = ()
    p2p: Sequence[Mapping[str, Any]] = ()

    @property
    def first(self) -> Run | None:
        """The run under the variables of the service, before any was changed to find a cause."""
        return self.measured.runs[0] if self.measured.runs else None

    @cached_property
    def logs(self) -> dict[tuple[int, int], Log]:
        """(number of the run, rank) -> what NCCL logged."""
        return {
            (number, rank.rank): debuglog.parse(rank.log)
            for number, run in enumerate(self.measured.runs)
            for rank in run.ranks
        }

    def nvml(self, ordinal: int) -> Gpu | None:
        """NVML's view of a GPU that CUDA counts as ``ordinal``; by UUID, because the two count differently."""
        told = self.measured.look.get("gpus", ())
        uuid = next((gpu.get("uuid") for gpu in told if gpu.get("ordinal") == ordinal), None)
        return next((gpu for gpu in self.gpus if uuid and _uuid(gpu) == uuid), None)

    def gpu(self, ordinal: int) -> str:
        """``gpu0`` as everybody counts: NVML's number where it is known."""
        seen = self.nvml(ordinal)
        return seen.subject if seen else f"gpu{ordinal}"

    def node(self, rank: Rank) -> int | None:
        """The node of a rank, None when there is only one."""
        number = (self.measured.nodes or {}).get("of_rank", {}).get(str(rank.rank))
        return number if isinstance(number, int) else None

    def elsewhere(self, rank: Rank) -> int | None:
        """The node of a rank that is not of the node that this report is of, else None."""
        node = self.node(rank)
        return None if self.measured.nodes is None or node == self.measured.nodes.get("node") else node

    def rank(self, rank: Rank) -> str:
        node = self.node(rank)
        return f"rank {rank.rank} ({'' if node is None else f'node {node}, '}{self.gpu(rank.gpu)})"

    def subject(self, rank: Rank) -> str:
        """Whom a finding on this rank is about: its GPU, or with many nodes its node."""
        node = self.node(rank)
        return self.gpu(rank.gpu) if node is None else f"node{node}"


def _uuid(gpu: Gpu) -> str | None:
    uuid = gpu.text("nvmlDeviceGetUUID")
    return None if isinstance(uuid, Gap) else uuid


def step(phase: str) -> int:
    """Where a phase is in the order of phases; ``sum 8388608`` comes after ``sum 8``."""
    word = phase.split()[0] if phase else ""
    return ORDER.index(word) if word in ORDER else 0


def place(phase: str) -> tuple[int, ...]:
    """The same with the size and how often the order was begun and given, for comparing ranks."""
    return step(phase), *(int(word) for word in phase.split()[1:3] if word.isdecimal())


def said(phase: str) -> str:
    """A phase in words."""
    word, size = [*phase.split(), "", ""][:2]
    words = {
        "start": "starting",
        "library": "loading libnccl",
        "context": "opening its GPU",
        "id": "waiting for the id",
        "init": "building the communicator",
        "sum": f"the all-reduce of {bytes_text(int(size))}" if size.isdecimal() else "an all-reduce",
        "pace": "the paced all-reduces",
        "bench": "the timed all-reduces",
        "end": "at the end",
    }
    return words.get(word, word[:40])


def bytes_text(size: int) -> str:
    """1073741824 -> 1 GiB."""
    for shift, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size >= 1 << shift:
            return f"{size / (1 << shift):.4g} {unit}"
    return f"{size} B"
