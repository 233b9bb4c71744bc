"""Step 4: does the machine have to boot, why, and is a boot still to be confirmed. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence

from checks.snapshot import CouldNotLook, Snapshot
from provision.host.moves import Reason, Reboot
from provision.plan import Item, Plan, Step
from provision.spec import Machine

ARM = "/var/lib/kpro/confirm.json"
TAKEN_BACK = ("/var/lib/kpro/confirm.undone.json", "/var/lib/kpro/confirm.undo-incomplete.json")

FOLLOWS_A_BOOT = frozenset(
    {"nodes.make", "container.configure", "container.start", "container.restart", "service.cutover"}
)
"""Kinds of items that a boot in this run may bring without having been shown: who agreed to the boot agreed to
these. They put back what a boot moves, minors of device nodes and running containers."""


def requests(machine: Machine) -> list[str]:
    """What the snapshot has to look at for this step."""
    return [f"file:{path}" for path in (ARM, *TAKEN_BACK)]


def parse_permission(text: object) -> bool:
    """``--data reboot=…``: allowed or refused, None when it was not given. Raises ValueError on another word."""
    if text is None:
        return False
    if text not in ("allowed", "refused"):
        raise ValueError(f"reboot={text!r}: the words are allowed and refused")
    return text == "allowed"


def reboot_plan(machine: Machine, snapshot: Snapshot, reasons: Sequence[Reason]) -> Plan:
    """One reboot for all reasons, and the confirmation that it needs."""
    if not machine.managed:
        return Plan(machine.name)
    notes: list[str] = []
    armed = _run_of(snapshot, ARM)
    items: list[Item] = []
    if reasons:
        why = "; ".join(f"{reason.subject}: {reason.seen}" for reason in reasons)
        if machine.reboot != "allowed":
            notes.append("the reboot is done only with --reboot: the inventory does not allow it")
        items.append(
            Item(
                Step.REBOOT,
                "reboot",
                machine.host_name,
                machine.name,
                f"reboot: {why}",
                Reboot(tuple(reasons)),
            )
        )
    if reasons or armed is not None:
        text = "confirm the boot, once the metal is as wanted" + (
            f": run {armed} is taken back by the machine itself otherwise" if armed else ""
        )
        items.append(Item(Step.DEVICE_NODES, "reboot.confirm", machine.host_name, machine.name, text, armed))
    notes += [
        f"run {run} was taken back by the machine itself{how}: it was not confirmed in time"
        for path, how in zip(TAKEN_BACK, ("", ", not completely"), strict=True)
        for run in [_run_of(snapshot, path)]
        if run is not None
    ]
    return Plan(machine.name, tuple(items), (), tuple(notes))


def _run_of(snapshot: Snapshot, path: str) -> str | None:
    """The run that a file of the commit-confirm names; None when the file is not there. What cannot be read is a run
    without a name, never none."""
    try:
        text = snapshot.text(path)
    except CouldNotLook:
        return "?"
    if text is None:
        return None
    try:
        return str(json.loads(text)["run"])
    except (ValueError, KeyError, TypeError):
        return "?"
