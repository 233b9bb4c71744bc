"""What an earlier migration of the service made of the two machines, by their state files: told once, with the command
that goes on from there, and nothing beside it that only follows from it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

from checks.snapshot import CouldNotLook
from provision.migrate.again import command
from provision.migrate.case import About, Case, sure
from provision.migrate.ends import End
from provision.migrate.seen import Looks, UnitLook, Unseen
from provision.migrate.silence import first_of_all
from provision.migrate.standing import DROP_IN, FENCES, Record, goes_on
from provision.plan import Refusal

_UP = ("active", "activating", "reloading")


@dataclass(frozen=True)
class Follows:
    """What is not told beside its cause: rules ``about`` these; ``unit``: how fit the source's unit is to be fenced;
    ``traffic``: what the clients are led by now."""

    about: frozenset[About] = frozenset()
    unit: bool = False
    traffic: bool = False


def known(case: Case) -> list[tuple[End, Record]]:
    """The state files of other runs, also of one that gave way to this run's own. Raises CouldNotLook."""
    found = []
    for end, seen in case.ends:
        for name in sorted({one.service.name for one in case.pair.ends}):
            record = sure(seen.migrations).get(name)
            if record is not None and record.run == case.pair.run:
                record = sure(seen.former).get(name)
            if record is not None:
                found.append((end, record))
    return found


def serves(looks: Looks | None) -> bool:
    """Is its unit up, or on its way there, as far as that was seen?"""
    unit = looks.guest.unit if looks is not None and looks.guest is not None else None
    return isinstance(unit, UnitLook) and unit.active in _UP


def the_other_way(case: Case) -> bool:
    """Does the target serve, and the source surely not?"""
    here = case.source
    if here is None or not serves(case.target):
        return False
    if here.guest is None:
        return here.state in ("stopped", "absent")
    return not serves(here) and not isinstance(here.guest.unit, Unseen)


def refusals(case: Case) -> Iterator[Refusal]:
    """Each migration once, whichever of the two machines have it. Raises CouldNotLook."""
    told: set[str] = set()
    # One that says that it is open counts before one that says that it is through: a cut lies between the two.
    for end, record in sorted(known(case), key=lambda one: one[1].state != "open"):
        if record.run in told:
            continue
        if record.state in ("open", "moved"):
            told.add(record.run)
            yield _under_way(case, end, record)
        elif _gave_up(case, end, record):
            told.add(record.run)
            yield _gone(case, record)


def _gave_up(case: Case, end: End, record: Record) -> bool:
    """Has the source no such service any more, because it moved away for good? One that serves has it again."""
    return (
        end is case.pair.source
        and (record.role, record.state) == ("source", "finalized")
        and not serves(case.source)
    )


def _words(case: Case, end: End, record: Record) -> tuple[str, ...]:
    """As this command line names its two machines, where it is about the same two, else as the record does."""
    here = {one.name: one for one in case.pair.ends}
    source, target = record.ends(end.name)
    return _named(here[source], here[target]) if source in here and target in here else record.words


def _named(source: End, target: End) -> tuple[str, ...]:
    several = [one for guest in source.machine.guests for one in guest.services][1:]
    return (source.inventory, target.inventory, *(("--service", source.service.name) if several else ()))


def _under_way(case: Case, end: End, record: Record) -> Refusal:
    source, target = record.ends(end.name)
    if record.state == "open":
        silent = first_of_all(asdict(record))
        return Refusal(
            f"machine {end.name}",
            f"{silent}the migration {record.run} of {record.service} from {source} to {target} is open since "
            f"{record.since or '?'}, at step {record.step or '?'}",
            "two migrations of one service would each undo what the other did",
            f"end it first: {goes_on(record, _words(case, end, record))}",
        )
    given = replace(record, words=_words(case, end, record))
    back = case.pair.target.name == source and case.pair.source.name == target
    if record.cold:
        ways = f"{command(given, '--finalize')} closes it" + (", then this again" if back else "")
    elif back:
        ways = (
            f"{command(given, '--rollback')} brings it back to {source}, in seconds; only to give {source} "
            "up first and move it there anew: --finalize"
        )
    else:
        ways = f"{command(given, '--finalize')}, or --rollback to go back"
    return Refusal(
        f"machine {end.name}",
        f"{record.service} was moved from {source} to {target} (run {record.run}), and that is not closed",
        f"{source} is kept from serving, and intact for a way back, until it is",
        ways,
    )


def _gone(case: Case, record: Record) -> Refusal:
    source, target = case.pair.ends
    name = record.service
    if record.peer != target.name:
        there = record.words[1] if len(record.words) > 1 else f"INVENTORY-OF-{record.peer}"
        ways = f"move it from where it is: {command({'words': (there, target.inventory)})}"
    elif serves(case.target):
        ways = (
            f"nothing is left to do, it serves on {target.name}: take it out of {source.inventory}; or, to move it "
            f"back, {_swapped(case)}"
        )
    else:
        ways = f"it does not serve on {target.name} now: see why (provision status {target.inventory}), and bring it up"
    return Refusal(
        f"machine {source.name}",
        f"{name} was moved to {record.peer} for good (run {record.run})",
        f"{source.name} was given up: there is nothing here that could be moved",
        ways,
    )


def _swapped(case: Case) -> str:
    return command({"words": _named(case.pair.target, case.pair.source)})


def order(case: Case) -> str:
    """The next step where the two inventories were named in the wrong order."""
    source, target = case.pair.ends
    now = f"{target.name} serves it now: {_swapped(case)}"
    return f"the order may be wrong, {now}; else bring it up on {source.name} first"


def follows(case: Case) -> Follows:
    """Nothing where that cannot be told."""
    try:
        return _follows(case)
    except CouldNotLook:
        return Follows()


def _follows(case: Case) -> Follows:
    told, source_gone, serves_there = False, False, the_other_way(case)
    for end, record in known(case):
        open_now = record.state in ("open", "moved")
        told = told or open_now
        if end is case.pair.source:
            source_gone = source_gone or (record.role == "source" and open_now) or _gave_up(case, end, record)
        elif record.role == "target" and open_now:
            serves_there = True
    about: set[About] = {"serving", "served"} if source_gone else set()
    if the_other_way(case):
        # That the source does not serve is told; its files and its container are no news then.
        about.add("served")
    if serves_there or source_gone:
        about.add("target serves")
    no_unit = case.source is not None and (case.source.guest is None or case.source.guest.unit is None)
    return Follows(frozenset(about), source_gone or no_unit, told or source_gone or the_other_way(case))


def fence_told(case: Case, end: End) -> bool:
    """Is a fence on this machine what a migration that is told has put there?"""
    return any(
        at is end and (record.state in ("open", "moved") or _gave_up(case, at, record))
        for at, record in known(case)
    )


def fenced(case: Case, end: End) -> list[str]:
    """The drop-ins of a fence, as far as its guest was looked into."""
    looks = case.source if end is case.pair.source else case.target
    unit = looks.guest.unit if looks is not None and looks.guest is not None else None
    drop_ins = unit.drop_ins if isinstance(unit, UnitLook) else ()
    return [path for path in drop_ins if path.endswith(f"/{DROP_IN}")]


def told_beside_a_plan(case: Case) -> list[str]:
    """What the target's own plan names when it refuses for its state file or its fence, which are told here."""
    target = case.pair.target
    try:
        runs = [
            record.run for end, record in known(case) if end is target and record.state in ("open", "moved")
        ]
    except CouldNotLook:
        runs = []
    return [*runs, *((FENCES, DROP_IN) if runs or fenced(case, target) else ())]
