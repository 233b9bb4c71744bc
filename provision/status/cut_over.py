"""What a status says while a cut-over is at work in a guest, or of one that went on when its run was gone. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from checks.snapshot import Snapshot
from provision.host.last_run import Begun, LastRun
from provision.plan import Item
from provision.stack import under_way
from provision.stack.under_way import waits

BY_HAND = "nothing by hand: "


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
    one line says so instead of its steps."""
    busy = [
        service["cut_over"]["unit"]
        for guest in guests
        for service in guest["services"]
        if (service.get("cut_over") or {}).get("at_work")
    ]
    told = [f"{BY_HAND}{unit} is at work; look again when it has ended" for unit in busy]
    return tuple(dict.fromkeys([*told, *(f"{item.text} [{item.host}]" for item in items if not waits(item))]))


def ended(run: LastRun, guests: Sequence[Mapping[str, Any]]) -> LastRun:
    """Cut-overs that their run began and did not see the end of have ended, where the guest remembers that very run;
    one that puts nothing to the proof is over when none is at work and what serves was seen well."""
    left, over = [], list(run.ended_alone)
    for one in run.begun:
        service = _service(one, guests) if one.is_cut_over else None
        said = _ended(one, run.run, service) if service is not None else ""
        if said:
            over.append(f"{one.text}: it ended without its run, {said}")
        else:
            left.append(one)
    return replace(run, begun=tuple(left), ended_alone=tuple(over))


def _service(one: Begun, guests: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    for guest in guests:
        if one.host and one.host.rpartition("/")[2] != guest["guest"]:
            continue
        for service in guest["services"]:
            if service["service"] == one.subject:
                return dict(service)
    return None


def _ended(one: Begun, run: str, service: Mapping[str, Any]) -> str:
    if service.get("cut_over"):
        return ""
    for known in (service.get("verdict"), service.get("last_cut_over"), service.get("last_way_back")):
        if known and known["run"] == run and one.digest in ("", known["digest"]):
            return str(known["verdict"])
    return "without a verdict; what serves now was seen well" if service.get("seen_well") else ""
