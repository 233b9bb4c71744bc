"""What was tried in a run, and what was refused of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from provision.run.errors import CandidateRefused


@dataclass
class Tried:
    """``trials``: every cut-over with its forecast and what was measured of it, as the journal has it."""

    trials: list[dict[str, Any]] = field(default_factory=list)
    refused: list[CandidateRefused] = field(default_factory=list)
    red: dict[str, CandidateRefused] = field(default_factory=dict)
    """By item: candidates whose gates of step 9 are red, which are therefore not tried."""

    def refused_on(self, host: str) -> list[CandidateRefused]:
        """The candidates that were refused on a host."""
        return [one for one in self.refused if one.host == host]
