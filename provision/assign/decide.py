"""What a machine's record of handed-over GPUs means for its plan, and what changing the record does. Pure.

The record is part of what is wanted: a GPU in it is on vfio-pci, the next boot leaves it there, and the guests that the
inventory gives it to rest. So a run that was cut is finished by the next one, ``provision apply`` included, and
``provision apply`` pulls no GPU back by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from checks.bdf import Bdf
from checks.snapshot import CouldNotLook, Snapshot
from provision.assign import give, rest, vms, wake
from provision.assign.handover import Handover
from provision.host import assigned
from provision.host.moves import Edits, FileEdit, Reason
from provision.plan import Item, Plan, Refusal, Step, make_seen
from provision.spec import Machine
from provision.stack.desired import sha256

FIRST = ("assign.record", "assign.unlist", "assign.wake", "assign.rest")
LAST = ("assign.give", "assign.list")
"""Before and after the boot configuration: a virtual machine forgets a GPU before that leaves vfio-pci, and learns of
it when it is there."""


@dataclass(frozen=True)
class Decided:
    """``machine`` and ``snapshot`` are what the other areas decide on: the machine without the GPUs that are with
    virtual machines, the look at it as it is once the record, and the virtual machines, are as wanted. ``plan`` comes
    before the steps of the metal, ``last`` after step 2. ``resting`` guests have no services. ``reasons`` are why it
    takes a boot."""

    machine: Machine
    snapshot: Snapshot
    plan: Plan
    last: Plan
    resting: frozenset[str]
    reasons: tuple[Reason, ...] = ()


def requests(machine: Machine, wanted: Handover | None = None) -> list[str]:
    """What the snapshot has to look at."""
    found = [f"file:{assigned.PATH}"]
    if wanted is not None and wanted.vmid is not None:
        found += vms.requests(wanted.vmid)
    return found


def decide(machine: Machine, snapshot: Snapshot, wanted: Handover | None = None) -> Decided:
    """``wanted`` None: only what the record says already. What cannot be looked at is a refusal."""
    try:
        return _decide(machine, snapshot, wanted)
    except CouldNotLook as error:
        refusal = Refusal(
            f"machine {machine.name}",
            str(error),
            "a GPU that a virtual machine may have is never touched",
            make_seen(error),
        )
        return Decided(machine, snapshot, Plan(machine.name, (), (refusal,)), Plan(machine.name), frozenset())


def _decide(machine: Machine, snapshot: Snapshot, wanted: Handover | None) -> Decided:
    now = assigned.read(snapshot)
    record = changed(now, wanted)
    items: list[Item] = []
    refusals: list[Refusal] = []
    notes = _notes(machine, now, record)
    if wanted is not None:
        if record != now:
            items.append(_record(machine, snapshot, record, wanted))
        keys, why_not, said = vms.keys(machine, snapshot, wanted)
        items += keys
        refusals += why_not
        notes += said
        snapshot = vms.as_if(snapshot, [item.payload for item in keys])
    if record != now:
        snapshot = assigned.with_record(snapshot, record)
    kept = assigned.without(machine, record)
    names = assigned.resting(machine, record)
    at_rest = [guest for guest in kept.guests if guest.name in names]
    reasons: list[Reason] = []
    for bdf in sorted(record):
        given = give.plan(kept, snapshot, bdf, at_rest)
        items += given.items
        refusals += given.refusals
        reasons += given.reasons
    for guest in at_rest:
        part = rest.plan(machine, kept, guest, snapshot, record)
        items += part.items
        refusals += part.refusals
        notes += part.notes
    items += wake.items(machine, snapshot, now, record)
    first = tuple(item for kind in FIRST for item in items if item.kind == kind)
    last = tuple(item for kind in LAST for item in items if item.kind == kind)
    return Decided(
        kept,
        snapshot,
        Plan(machine.name, first, tuple(refusals), tuple(notes)),
        Plan(machine.name, last),
        frozenset(names),
        tuple(reasons),
    )


def changed(now: Mapping[Bdf, str], wanted: Handover | None) -> dict[Bdf, str]:
    """The record as it is to be. A GPU that is in it already stays with the run that handed it over."""
    record = dict(now)
    if wanted is not None and wanted.to == "vm":
        record.setdefault(wanted.bdf, wanted.run)
    elif wanted is not None:
        record.pop(wanted.bdf, None)
    return record


def _record(machine: Machine, snapshot: Snapshot, record: Mapping[Bdf, str], wanted: Handover) -> Item:
    before = snapshot.file(assigned.PATH)
    why = (
        f"{wanted.bdf.short} is with virtual machines"
        if wanted.to == "vm"
        else f"{wanted.bdf.short} is with the containers"
    )
    edit = FileEdit(
        assigned.PATH, None if before is None else sha256(before), assigned.dump(record), why, "600"
    )
    text = f"record that GPU {why}, in {assigned.PATH}"
    return Item(Step.RELEASE, "assign.record", machine.host_name, str(wanted.bdf), text, Edits((edit,)))


def _notes(machine: Machine, now: Mapping[Bdf, str], record: Mapping[Bdf, str]) -> list[str]:
    notes = []
    named = {Bdf.parse(gpu.bdf) for gpu in machine.gpus}
    for bdf in sorted(record):
        if bdf in now and bdf in named:
            notes.append(
                f"GPU {bdf} is assigned to virtual machines by run {now[bdf]}; "
                f"provision assign <inventory> {bdf.short} lxc takes it back"
            )
    return notes
