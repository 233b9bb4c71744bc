"""What a step that looks at both services found. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

State = Literal["pass", "warn", "fail", "unknown", "skip"]


@dataclass(frozen=True)
class Verdict:
    """``said``: one sentence; ``lines``: every reason where it is red; ``facts``: of the journal's event."""

    state: State
    said: str
    lines: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def green(self) -> bool:
        """What could not be looked at is not; what there is nothing to look at for is."""
        return self.state in ("pass", "warn", "skip")

    @property
    def why(self) -> str:
        """For the operator, every reason."""
        return "\n".join((self.said, *(f"  {line}" for line in self.lines)))
