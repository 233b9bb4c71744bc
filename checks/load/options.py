"""How much a run does. Given by the caller, carried to the children as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

MIB = 1 << 20


@dataclass(frozen=True)
class Options:
    """``seconds`` of computing; ``size`` bytes of pinned host memory; at most ``memory`` bytes of the GPU's.

    ``deadline`` is what a step may take beyond its own length before its child is given up.
    """

    seconds: float = 4.0
    size: int = 256 * MIB
    memory: int = 4096 * MIB
    deadline: float = 30.0

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

    def dump(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, text: str) -> Options:
        return cls(**json.loads(text))
