"""How much a run does. Given by the caller, carried to the children as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from checks.load.busy import RESERVE

MIB = 1 << 20


@dataclass(frozen=True)
class Options:
    """``seconds`` of computing; ``size`` bytes of pinned host memory; at most ``memory`` bytes of the GPU's.

    ``deadline`` is what a step may take beyond its own length before its child is given up. ``shared``: somebody
    else is on these GPUs.
    """

    seconds: float = 4.0
    size: int = 256 * MIB
    memory: int = 4096 * MIB
    deadline: float = 30.0
    shared: bool = False

    def arena(self, free: int) -> int:
        """Bytes to take of ``free`` ones: half at most; beside others (``shared``) a quarter of all but a reserve."""
        share = max(0, free - RESERVE) // 4 if self.shared else free // 2
        return min(self.memory, share) // 4096 * 4096

    @property
    def link_s(self) -> float:
        """Seconds of copying in each direction and of each kind of memory traffic."""
        return min(0.35, self.seconds)

    @property
    def wait_s(self) -> float:
        """What one piece of work given to the GPU may take; shorter than the step's, so that the child says it."""
        return self.deadline * 0.7

    def allowed(self, step: str) -> float:
        """Seconds until a step counts as hanging."""
        return self.deadline + {"heat": self.seconds, "link": 8 * self.link_s, "memory": 8 * self.link_s}.get(
            step, 0.0
        )

    def longest(self, gpus: int = 8) -> float:
        """Seconds that a run takes at most: two looks, and the steps; copies come one GPU after the other."""
        copies = gpus * self.allowed("link")
        return 2 * self.deadline + copies + sum(map(self.allowed, ("start", "memory", "heat", "stop")))

    def dump(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, text: str) -> Options:
        return cls(**json.loads(text))
