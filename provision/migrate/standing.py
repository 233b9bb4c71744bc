"""What a machine says of a migration of one of its services, and what that forbids. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from checks.snapshot import CouldNotLook, Snapshot
from provision.migrate import again
from provision.migrate.ends import Role
from provision.migrate.silence import first_of_all
from provision.plan import Refusal
from provision.spec import Guest, Machine, Service

FOLDER = "/var/lib/kpro/migrations"
"""On both machines."""
FENCES = "/var/lib/kpro/migrated"
"""In the guest of a source: while a file of the service's name lies there, its unit does not start."""
DROP_IN = "kpro-migrated.conf"
"""The drop-in of its unit that makes it so (provision.migrate.fence)."""
FORMER = ".former"
"""Beside a state file, and in place of its ``.json``: that of a migration which had ended, and gave way to this one."""
SCHEMA = "kpro-migration/1"

State = Literal["open", "moved", "finalized", "rolled_back"]
Back = Literal["", "begun", "serves", "paused"]


@dataclass(frozen=True)
class Record:
    """One side's state file. ``step``: the last one that began. ``peer``: the other machine; ``service``: its name.

    ``words``: source, target and options as they were named on ``controller`` (provision.migrate.asked); empty in one
    of an older version. ``back``: of a way back that is not whole, does the source serve again, or is it begun alone?
    "paused": an interrupt in the cut-over brought the source back, and nothing else was taken back.
    """

    run: str
    service: str
    role: Role
    peer: str
    controller: str
    step: str
    state: State
    since: str
    cold: bool = False
    models_from: str = ""
    schema: str = SCHEMA
    words: tuple[str, ...] = ()
    back: Back = ""

    def ends(self, machine: str) -> tuple[str, str]:
        """Source and target, as ``machine`` has this record."""
        return (machine, self.peer) if self.role == "source" else (self.peer, machine)

    def dump(self) -> bytes:
        return (json.dumps(asdict(self), indent=1) + "\n").encode()


def path(service: str) -> str:
    return f"{FOLDER}/{service}.json"


def former(service: str) -> str:
    return f"{FOLDER}/{service}{FORMER}"


def fence(service: str) -> str:
    return f"{FENCES}/{service}"


def parse(text: str) -> Record:
    """Raises ValueError for what is no such record."""
    data = json.loads(text)
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        raise ValueError(f"it is no {SCHEMA}")
    names = Record.__dataclass_fields__
    known = {key: value for key, value in data.items() if key in names}
    words = known.get("words")
    known["words"] = tuple(map(str, words)) if isinstance(words, list) else ()
    if known.get("back") not in ("begun", "serves", "paused"):
        known["back"] = ""
    try:
        record = Record(**known)
    except TypeError as error:
        raise ValueError(str(error)) from None
    if record.role not in ("source", "target") or record.state not in (
        "open",
        "moved",
        "finalized",
        "rolled_back",
    ):
        raise ValueError(f"role {record.role!r}, state {record.state!r}")
    return record


@dataclass(frozen=True)
class Migrating:
    """The migration that a run of the chain belongs to: its id, and the model folders that its copy brings (as the
    guest sees them). Without one, ``run`` is empty."""

    run: str = ""
    arriving: frozenset[str] = field(default_factory=frozenset)


def requests(machine: Machine) -> list[str]:
    """What the snapshot of a machine has to look at."""
    return [f"file:{path(service.name)}" for guest in machine.guests for service in guest.services]


def guest_requests(guest: Guest) -> list[str]:
    """What the snapshot of a guest has to look at."""
    return [
        request
        for service in guest.services
        for request in (f"file:{fence(service.name)}", f"dir:{_drop_ins(service)}")
    ]


def refusals(
    machine: Machine, host: Snapshot, guests: Mapping[str, Snapshot | None], own: str
) -> Iterator[Refusal]:
    """Why nothing is done on this machine now. ``own``: the id of the migration that asks, which may; to it one that
    gave the service up for good is history, since it brings the service anew."""
    for at, guest in enumerate(machine.guests):
        for number, service in enumerate(guest.services):
            where = f"machine.guests[{at}].services[{number}]"
            try:
                record = _record(host, service)
                fenced = list(_fenced(service, guests.get(guest.name), where))
            except (CouldNotLook, ValueError) as error:
                yield Refusal(
                    where,
                    f"{path(service.name)}, or the fence in its guest, cannot be read: {error}",
                    "it says whether the service is being moved, or was, and two hosts must not answer",
                    "look at it; where no migration is open (provision runs), remove it",
                )
                continue
            if record is None or (own and record.state == "finalized"):
                yield from fenced
            elif record.run == own:
                # The own fence is the source's; at the target it is another migration's.
                yield from fenced if record.role == "target" else ()
            else:
                yield from list(_of_record(machine, service, record, where)) or fenced


def records(machine: Machine, host: Snapshot) -> list[Record]:
    """Of every service of the machine that is being moved, or was. Raises CouldNotLook and ValueError."""
    found = [_record(host, service) for guest in machine.guests for service in guest.services]
    return [one for one in found if one is not None]


def unclosed(machine: Machine, host: Snapshot, own: str) -> list[Refusal]:
    """Why this machine is not taken back to before kpro: a service of it is being moved, or was and can still go back.
    ``own``: the migration that asks, which may. Raises CouldNotLook and ValueError."""
    found = []
    for one in records(machine, host):
        if one.state == "open" and one.run != own:
            found.append(_open(machine, one, f"machine {machine.name}"))
        elif one.state == "moved":
            found.append(_moved(machine, one))
    return found


def told(one: Mapping[str, Any]) -> str:
    """A record in one line."""
    way = f"to {one['peer']}" if one["role"] == "source" else f"from {one['peer']}"
    at = _half_back(one) or f"is being moved {way}, at {one['step']}"
    ways = {
        "open": f"{at}: {again.ways_on(one)}",
        "moved": f"was moved {way} and can still go back: {again.command(one, '--rollback')}, or --finalize",
    }
    said = ways.get(one["state"], f"was moved {way} for good")
    return f"{first_of_all(one)}migration {one['run']}: {one['service']} {said}"


def _half_back(one: Mapping[str, Any]) -> str:
    """Of a way back that is not whole; empty where none has begun."""
    if not one.get("back"):
        return ""
    here = one["role"] == "source"
    source, target = ("this machine", one["peer"]) if here else (one["peer"], "this machine")
    if one["back"] == "paused":
        return f"was on its way to {target}, interrupted at {one['step']}, and {source} serves"
    if one["back"] == "serves":
        return f"was taken back, and {source} serves; {target} is still to be cleaned"
    if one.get("cold"):
        return f"is being given up on {target}"
    return f"is being taken back, and {source} does not serve its clients yet"


def of_service(
    machine: Machine, host: Snapshot, guests: Mapping[str, Snapshot | None], own: str, name: str
) -> list[Refusal]:
    """The same for the services of this name alone."""
    named = {
        f"machine.guests[{at}].services[{number}]"
        for at, guest in enumerate(machine.guests)
        for number, service in enumerate(guest.services)
        if service.name == name
    }
    return [one for one in refusals(machine, host, guests, own) if one.where in named]


def _record(host: Snapshot, service: Service) -> Record | None:
    text = host.text(path(service.name))
    return None if text is None else parse(text)


def _open(machine: Machine, record: Record, where: str) -> Refusal:
    source, target = record.ends(machine.name)
    silent = first_of_all(asdict(record))
    return Refusal(
        where,
        f"{silent}migration {record.run} of {record.service} from {source} to {target} is open since {record.since}, "
        f"at step {record.step}",
        "two hands on one service could leave two hosts that answer, or none",
        goes_on(record),
    )


def goes_on(record: Record, named: tuple[str, ...] = ()) -> str:
    """The next command of an open migration; ``named``: as its two inventories are named, where that is known."""
    given = {**asdict(record), **({"words": named} if named else {})}
    return again.ways_on(given) + (", which is half done" if again.only_back(given) else "")


def _moved(machine: Machine, record: Record) -> Refusal:
    source, target = record.ends(machine.name)
    if record.role == "source":
        why = "what would be stopped here is the only way back"
        ways = (
            f"where it is to stay on {target}: {again.command(record, '--finalize')}, then this again; else --rollback "
            "brings it back here, and this would end it"
        )
    else:
        why = "what would be taken away here is the only host that serves it"
        ways = f"{again.command(record, '--rollback')} brings it back to {source}, then this again"
        if record.cold:
            ways = (
                f"{source} is dead: {again.command(record, '--finalize')}, and move it to another host first"
            )
        ways += f". After --finalize nobody else has it: this would end {record.service} for everybody"
    return Refusal(
        f"machine {machine.name}",
        f"{record.service} was moved from {source} to {target} (run {record.run}), and that is not closed",
        why,
        ways,
    )


def _of_record(machine: Machine, service: Service, record: Record, where: str) -> Iterator[Refusal]:
    if record.state == "open":
        yield _open(machine, record, where)
    elif record.role == "source" and record.state == "moved":
        yield Refusal(
            where,
            f"{service.name} was moved to {record.peer} (run {record.run}); here it is stopped and kept from starting",
            "two hosts must not answer",
            f"{again.command(record, '--rollback')} brings it back here, --finalize gives it up; then take it out of "
            "this inventory",
        )
    elif record.role == "source" and record.state == "finalized":
        here, there = f"INVENTORY-OF-{machine.name}", f"INVENTORY-OF-{record.peer}"
        source, target, *more = record.words if record.words[1:] else (here, there)
        yield Refusal(
            where,
            f"{service.name} was moved to {record.peer} for good (run {record.run})",
            "two hosts would answer",
            "take the service out of this inventory; to move it back here, "
            f"{again.command({'words': (target, source, *more)})}; to have it here as well, remove "
            f"{path(service.name)} on {machine.name} first",
        )


def _drop_ins(service: Service) -> str:
    return f"/etc/systemd/system/{service.unit}.d"


def _fenced(service: Service, inside: Snapshot | None, where: str) -> Iterator[Refusal]:
    if inside is None:
        return
    drop_ins = (inside.data("dir", _drop_ins(service)) or b"").decode(errors="replace").split()
    found = [f"{_drop_ins(service)}/{DROP_IN}"] if DROP_IN in drop_ins else []
    if inside.file(fence(service.name)) is not None:
        found.append(fence(service.name))
    if found:
        yield Refusal(
            where,
            f"{' and '.join(found)} {'lie' if found[1:] else 'lies'} in the guest: {service.name} was moved to another "
            "host, or is being moved",
            "its unit does not start while that is so, because two hosts must not answer",
            f"{again.command({}, '--rollback')} brings it back; where no other host has it, remove "
            f"{'them' if found[1:] else 'it'} (then systemctl daemon-reload)",
        )
