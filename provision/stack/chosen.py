"""What was chosen for a service, and what cannot be: in words of the plan. Pure."""

from __future__ import annotations

from provision.plan import Refusal
from provision.stack.desired import DesiredService


def chosen(desired: DesiredService, where: str) -> tuple[list[str], list[Refusal]]:
    """Notes and refusals about the service and its candidate."""
    notes: list[str] = []
    refusals: list[Refusal] = []
    for one, field in ((desired, where), (desired.candidate, f"{where}.candidate")):
        if one is None:
            continue
        who = desired.name if one is desired else f"candidate of {desired.name}"
        notes += [f"{who}: {text}" for text in (*one.launch.notes, *one.around.said)]
        notes += [f"{who}: not decided yet: {text}" for text in one.launch.open]
        refusals += [Refusal(f"{field}.profile", *reason) for reason in one.launch.wrong]
    return notes, refusals
