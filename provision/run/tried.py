"""What was tried in a run, and what was refused of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from provision.run.errors import CandidateRefused
from provision.stack.cutover import Cutover


@dataclass
class Tried:
    """``trials``: every cut-over with its forecast and what was measured of it, as the journal has it."""

    trials: list[dict[str, Any]] = field(default_factory=list)
    refused: list[CandidateRefused] = field(default_factory=list)
    red: dict[str, CandidateRefused] = field(default_factory=dict)
    """By item: candidates whose gates of step 9 are red, which are therefore not tried."""

    under_way: dict[str, Cutover] = field(default_factory=dict)
    """By item: cut-overs that this run is following; each goes on in its guest when nobody does."""

    def left_alone(self) -> list[str]:
        """What happens to them when this run is interrupted, in words."""
        return [
            f"kpro-{one.desired.name}.service: its cut-over goes on to its end without this command, and mends what it "
            "breaks. "
            + (
                "It serves meanwhile, but for one start when the new profile is published. "
                if one.mode == "beside"
                else "It is down meanwhile; do not start it by hand. "
            )
            + "Watch it with: provision status; in the guest: tail -f "
            f"/run/kpro-cutover/{one.desired.name}/log. The next apply waits for it and says what came of it"
            for one in self.under_way.values()
        ]

    def refused_on(self, host: str) -> list[CandidateRefused]:
        """The candidates that were refused on a host."""
        return [one for one in self.refused if one.host == host]
