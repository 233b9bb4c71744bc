"""What a status says while a cut-over is at work in a guest, or of one that went on when its run was gone. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from checks.snapshot import Snapshot
from provision.plan import Item, Step
from provision.stack import under_way
from provision.status.looks import LastRun


def kept(name: str, inside: Snapshot | None) -> dict[str, Any]:
    """``cut_over`` of a service: what is at work or was cut off, else None. Raises CouldNotLook."""
    found = under_way.read(name, inside)
    return {"cut_over": found.as_dict() | {"text": found.text} if found else None}


def lines(service: Mapping[str, Any]) -> list[str]:
    """What an operator reads of it below the line of its unit."""
    found = service.get("cut_over")
    return [str(found["text"])] if found else []


def pending(items: Sequence[Item], guests: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """What a plan has to do. Of a service whose cut-over is at work nobody can tell, and nothing is to be done by hand:
    one line says so instead of its steps 9 and 10."""
    busy = {
        service["service"]: service["cut_over"]["unit"]
        for guest in guests
        for service in guest["services"]
        if (service.get("cut_over") or {}).get("at_work")
    }
    told = [
        f"nothing by hand: {busy[item.subject]} is at work; look again when it has ended [{item.host}]"
        if item.step >= Step.GATE and item.subject in busy
        else f"{item.text} [{item.host}]"
        for item in items
    ]
    return tuple(dict.fromkeys(told))


def ended(run: LastRun, guests: Sequence[Mapping[str, Any]]) -> LastRun:
    """A cut-over that its run began and did not see the end of has ended, where its guest remembers that very run."""
    for guest in guests:
        for service in guest["services"]:
            if run.unfinished is None or service["service"] != run.unfinished_service:
                continue
            for one in (service.get("verdict"), service.get("last_cut_over")):
                if one and one["run"] == run.run:
                    text = f"{run.unfinished}: it ended without its run, {one['verdict']}"
                    return replace(run, unfinished=None, ended_alone=text)
    return run
