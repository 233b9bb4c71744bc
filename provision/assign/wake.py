"""A Proxmox container whose GPU comes back starts with the machine again, where it did before it rested. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping

from checks.bdf import Bdf
from checks.snapshot import CouldNotLook, Snapshot
from provision.assign.handover import ProxmoxRest
from provision.host import assigned
from provision.plan import Item, Step
from provision.spec import Machine

MANIFEST = "/var/lib/kpro/manifest.json"


def items(
    machine: Machine, snapshot: Snapshot, now: Mapping[Bdf, str], record: Mapping[Bdf, str]
) -> list[Item]:
    """One for each Proxmox guest that rests now and does not as the record is to be. The manifest says what its
    ``onboot`` was. (A plain container's configuration is written as a whole.) Raises CouldNotLook."""
    woken = set(assigned.resting(machine, now)) - set(assigned.resting(machine, record))
    found = []
    for guest in machine.guests:
        if guest.name not in woken or guest.backend != "pct":
            continue
        before = _before(snapshot, guest.id)
        if before is not None:
            text = f"container {guest.id} starts with the machine again: pct set {guest.id} --onboot {before}"
            payload = ProxmoxRest(guest.id, (), before, False)
            found.append(Item(Step.RELEASE, "assign.wake", machine.host_name, guest.name, text, payload))
    return found


def _before(snapshot: Snapshot, vmid: str) -> str | None:
    """What its ``onboot`` was before kpro set it to 0; None when kpro did not, or has set it back."""
    text = snapshot.text(MANIFEST)
    if text is None:
        return None
    about = ("key", "pct", vmid, "onboot")
    try:
        found = [
            change
            for change in json.loads(text)["changes"]
            if tuple(change.get(name) for name in ("kind", "folder", "id", "path")) == about
        ]
        return str(found[-1]["before"]) if found and found[-1]["written"] == "0" else None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise CouldNotLook(f"{MANIFEST} is not readable ({error!r})") from error
