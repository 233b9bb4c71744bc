"""The commands for going back, or on, from where a run ended. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from provision.plan import Step
from provision.report.document import Back, Candidate, Change
from provision.report.entries import Journal, end, of, text
from provision.report.outcome import UNTOUCHED

_METAL = {f"{int(step)} {step.title}" for step in Step if Step.RELEASE <= step <= Step.CONTAINER}
_WAY = re.compile(r"(?: --(?:resume|rollback|finalize))+$")
"""How a migration that is under way was taken up again."""
_ASSIGN = re.compile(r"assign (\S.*) (\S+) (vm|lxc)")


def back(
    journals: Sequence[Journal], state: str, changed: Sequence[Change], tried: Sequence[Candidate]
) -> tuple[Back, ...]:
    """None where nothing was changed; those that the run itself told come first."""
    found = [
        Back(text(event, "what"), text(event, "command"), text(event, "where") or "controller")
        for journal in journals
        for event in of(journal.events, "back")
        if text(event, "command")
    ]
    if state in UNTOUCHED:
        return tuple(found)
    if _reason(journals[0]).partition(" ")[0] == "demo":
        # It removes what it made, and says itself what it kept.
        return tuple(found)
    for journal in journals:
        reason = _reason(journal)
        target = text(next(iter(of(journal.events, "run")), {}), "target")
        found += (
            _migrate(reason, journal) if reason.startswith("migrate ") else _chain(reason, changed, tried)
        )
        if any(change.step in _METAL for change in changed) and of(journal.events, "begin"):
            found.append(
                Back(
                    "what this run changed on the machine, without a controller (--look shows it first)",
                    f"/var/lib/kpro/undo.sh {journal.run}",
                    f"machine{f' {target}' if target else ''}, as root",
                )
            )
    return tuple(dict.fromkeys(found))


def _reason(journal: Journal) -> str:
    return text(next(iter(of(journal.events, "run")), {}), "reason")


def _chain(reason: str, changed: Sequence[Change], tried: Sequence[Candidate]) -> list[Back]:
    found: list[Back] = []
    if not changed:
        return found
    command, _, inventory = reason.partition(" ")
    if (given := _ASSIGN.fullmatch(reason)) is not None:
        other = "lxc" if given[3] == "vm" else "vm"
        return [Back(f"the GPU goes back to {other}", f"provision assign {given[1]} {given[2]} {other}")]
    if command == "rollback" and inventory:
        return [Back("forward again, as the inventory says", f"provision apply {inventory.split(' --')[0]}")]
    if command != "apply" or not inventory:
        return found
    services = dict.fromkeys(
        one.service for one in tried if one.verdict == "accepted" and one.mode in ("beside", "swap")
    )
    for service in services:
        found.append(
            Back(
                f"the profile of {service} that served before; the machines stay as they are",
                f"provision rollback {inventory} --service {service}",
            )
        )
    found.append(Back("the machines as they were before kpro", f"provision rollback {inventory}"))
    return found


def _migrate(reason: str, journal: Journal) -> list[Back]:
    """Until it is finalized a migration can be taken back at any step: the source's files were never changed."""
    steps = of(journal.events, "step")
    if not steps:
        return []
    reason = _WAY.sub("", reason)
    last = {text(step, "step"): text(step, "state") for step in steps}
    if last.get("finalize") == "done":
        return []
    found = [Back("the source serves again, the target is cleaned", f"provision {reason} --rollback")]
    if last.get("lock") == "undone":
        return [
            Back(
                "all of it is taken back already and the source serves; to begin anew", f"provision {reason}"
            )
        ]
    ended = end(journal)
    if ended is None or ended.get("exit") != 0:
        found.insert(0, Back("goes on at the first step that is not proven", f"provision {reason} --resume"))
    elif "undone" not in last.values():
        found.append(Back("for good: after this there is no way back", f"provision {reason} --finalize"))
    return found
