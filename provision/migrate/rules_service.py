"""What speaks against the service as it is: on the source it must serve as written, on the target not yet. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from provision.migrate import earlier
from provision.migrate.case import Case, Rule, sure
from provision.migrate.ends import End
from provision.migrate.seen import GuestLook, UnitLook
from provision.migrate.standing import DROP_IN
from provision.plan import Refusal


def _cold(case: Case) -> str:
    pair = case.pair
    return f"provision migrate {pair.source.inventory} {pair.target.inventory} --cold"


def _source(case: Case) -> tuple[End, GuestLook] | None:
    """None for a dead source, and where its guest was not looked into (that is another rule's refusal)."""
    if case.source is None or case.source.guest is None:
        return None
    return case.pair.source, case.source.guest


def _unit(seen: GuestLook) -> UnitLook | None:
    return sure(seen.unit)


def _guest(case: Case) -> Iterator[Refusal]:
    if case.source is None:
        return
    end, state = case.pair.source, sure(case.source.state)
    if state != "running" or case.source.guest is None:
        yield Refusal(
            f"{end.name}: machine.guests[{end.machine.guests.index(end.guest)}].id",
            f"container {end.guest.id} is {state}"
            + ("" if state != "running" else ", and could not be looked into"),
            "nothing serves there, so nothing can be moved while it serves",
            _started(case),
        )


def _started(case: Case) -> str:
    if earlier.the_other_way(case):
        return earlier.order(case)
    return f"start it, or move what the inventory says of it: {_cold(case)}"


def _serves(case: Case) -> Iterator[Refusal]:
    found = _source(case)
    if found is None:
        return
    end, seen = found
    unit = _unit(seen)
    if unit is None or unit.active != "active" or unit.pid == 0:
        state = f"{unit.active}, {unit.sub}" if unit else "not there"
        yield Refusal(
            end.where,
            f"{end.service.unit} is {state}",
            "only what serves can be moved while it serves, and be compared with",
            _started(case),
        )
        return
    said = sure(seen.generates)
    if said is not None:
        yield Refusal(
            end.where,
            f"{end.service.unit} runs and does not generate: {said}",
            "its answers and its speed are what the target is held against",
            f"mend it (provision status {end.inventory}), or move what the inventory says of it: {_cold(case)}",
        )


def _drift(case: Case) -> Iterator[Refusal]:
    found = _source(case)
    if found is None:
        return
    end, seen = found
    unit = _unit(seen)
    if unit is None:
        return
    left = tuple(path for path in unit.drop_ins if not path.endswith(f"/{DROP_IN}"))
    if left and end.service.found is None:
        yield _other(end, f"{unit.name} is changed by hand: {', '.join(left)}")
    if end.service.found is not None:
        for field, said in sure(seen.drift):
            yield _other(end, said, field)
        return
    for what, digest in (("its file", unit.digest), ("what runs", unit.running)):
        if digest and digest not in case.pair.digests:
            yield _other(end, f"{what} is of another profile ({digest[:12]}) than the inventory has")
        elif not digest and unit.active == "active":
            yield _other(end, f"of which profile {what} is cannot be told: it has no KPRO_DIGEST")


def _other(end: End, seen: str, field: str = "") -> Refusal:
    return Refusal(
        f"{end.where}{field}",
        seen,
        "what is moved would be another service than the one that serves",
        f"provision plan {end.inventory}, and apply it, or write into the inventory what runs",
    )


def _candidate(case: Case) -> Iterator[Refusal]:
    found = _source(case)
    unit = _unit(found[1]) if found else None
    if found is None or unit is None or case.pair.digests.get(unit.running) != "candidate":
        return
    end = found[0]
    yield Refusal(
        f"{end.where}.candidate",
        f"the candidate of {end.service.name} was accepted and is what serves",
        "a migration brings the service's own profile: the target would serve another one than the source",
        "make it the service's own profile in both inventories (docs/candidates.md), then move",
    )


def _fenced(case: Case) -> Iterator[Refusal]:
    for end in case.pair.ends:
        for path in () if earlier.fence_told(case, end) else earlier.fenced(case, end):
            yield Refusal(
                f"{end.name}: {end.service.unit}",
                f"an earlier migration took the service away from here and left {path}",
                "it keeps the unit from being started, so that two machines never answer",
                f"if the service is to come here (again), in the guest: rm {path} /var/lib/kpro/migrated/"
                f"{end.service.name} && systemctl daemon-reload",
            )


def _target_serves(case: Case) -> Iterator[Refusal]:
    end, seen = case.pair.target, case.target
    if seen.guest is None:
        return
    unit = _unit(seen.guest)
    if unit is not None and earlier.serves(seen):
        yield Refusal(
            end.where,
            f"{unit.name} is {unit.active} on {end.name} already (since {unit.since or '?'})",
            "two machines would answer for one service, and what it serves now would be replaced",
            f"choose another target; only where {case.pair.source.name} serves all its clients, and nobody asks it on "
            f"{end.name}, end it there: systemctl disable --now {unit.name}"
            if case.source is not None
            else f"where its clients are to ask it there, nothing is left to move; else choose another target than "
            f"{end.name}",
        )


def _tools(case: Case) -> Iterator[Refusal]:
    found = _source(case)
    if found is not None and not sure(found[1].systemd):
        yield Refusal(
            f"{found[0].name}: guest {found[0].guest.name}",
            "systemd does not run in it",
            "the unit is fenced, stopped and started again by it",
            f"move what the inventory says of it: {_cold(case)}",
        )


def _managed(case: Case) -> Iterator[Refusal]:
    end = case.pair.target
    if not end.guest.managed:
        yield Refusal(
            f"{end.name}: machine.guests[{end.machine.guests.index(end.guest)}].managed",
            "is False: somebody else looks after that container",
            "a service is put into containers that kpro may change",
            "describe a container of the target with managed=True",
        )


def _asked(case: Case) -> Iterator[Refusal]:
    end = case.pair.target
    for one in case.pair.asked:
        if one.verdict == "fail":
            yield Refusal(
                end.where,
                f"provcheck {one.gate} is red for {end.name}: {'; '.join(one.lines)[:600] or 'no reason given'}",
                "it would be copied for nothing: the target could not serve it so",
                f"correct the target's profile: provcheck {one.gate} --help, docs/gates.md",
            )


RULES = (
    Rule("source guest", "the source's container does not run", _guest, about="serving"),
    Rule(
        "source serves",
        "the source's service does not run, or does not generate",
        _serves,
        "contract T2: /health proves nothing",
        "serving",
    ),
    Rule("drift", "what runs on the source is not what its inventory says", _drift, about="served"),
    Rule("candidate", "what runs on the source is its candidate", _candidate, about="served"),
    Rule("fence", "an earlier migration keeps the unit from being started", _fenced),
    Rule("target serves", "the target serves this service already", _target_serves, about="target serves"),
    Rule("guest systemd", "no systemd runs in the source's container", _tools, about="served"),
    Rule("target managed", "the target's container is somebody else's", _managed),
    Rule(
        "gates",
        "fit or drafter are red for the target's GPUs and engine, asked about the source's files",
        _asked,
    ),
)
