"""``provision migrate``: which service, which run, which way; then the runbook. gevent's patches must be in place."""

from __future__ import annotations

import getpass
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from provision import inventory as inventories
from provision.migrate import files, known, live, present, record, runbook, standing, steps
from provision.migrate.copy.copying import Copy
from provision.migrate.ends import End, Pair, one_address
from provision.migrate.live import Dead, Ends
from provision.migrate.moving import Moving
from provision.migrate.preflight import preflight
from provision.migrate.proofs import Proofs
from provision.migrate.runbook import StepFailed
from provision.migrate.shown import Shown
from provision.migrate.sides import Side
from provision.migrate.standing import Migrating, Record
from provision.migrate.traffic.choose import traffic
from provision.plan import PHASES, Refusal
from provision.printable import say_on_stderr
from provision.run.commands import Answer, finish
from provision.run.errors import EXIT_DONE, EXIT_ERROR, EXIT_REFUSED, EXIT_USAGE, Refused, RunError
from provision.run.journal import new_run_id, runs_folder


@dataclass(frozen=True)
class Asked:
    """What ``provision migrate`` was asked for. ``way``: ``begin``, ``resume``, ``rollback``, ``finalize`` or
    ``dry-run``."""

    source: str
    target: str
    service: str | None
    way: str
    cold: bool
    models_from: str
    yes: bool
    as_json: bool
    reboot: bool
    remove_models: bool = False


def migrate(ask: Asked) -> int:
    """Exit code of ``provision migrate``."""
    return finish(lambda: _migrate(ask), "migrate", ask.as_json)


def _migrate(ask: Asked) -> Answer:
    source, target, paths = _both(ask)
    reason = f"migrate {ask.source} {ask.target}" + ("" if ask.way == "begin" else f" --{ask.way}")
    with live.connected(
        source, target, paths, reason, say_on_stderr, cold=ask.cold, reboot=ask.reboot
    ) as ends:
        ends.session.facts = {
            "source": source.name,
            "target": target.name,
            "service": target.service.name,
            "cold": ask.cold,
        }
        ways: dict[str, Callable[[Asked, Ends, Pair], Answer]] = {
            "begin": _begin,
            "dry-run": _dry_run,
            "resume": _resume,
            "rollback": _rollback,
        }
        pair = _pair(ask, ends, source, target)
        answer = ways[ask.way](ask, ends, pair)
        ends.session.ended = answer.exit_code
        return answer


def _both(ask: Asked) -> tuple[End, End, tuple[Any, Any]]:
    """Both ends of the one service that both inventories name. Raises InventoryRefused and ValueError."""
    loaded = [
        inventories.load(ask.source, files=not ask.cold, names=not ask.cold),
        inventories.load(ask.target),
    ]
    for word, one in zip((ask.source, ask.target), loaded, strict=True):
        if len(one.machines) != 1:
            raise ValueError(
                f"{word} has {len(one.machines)} machines: a service moves between two, one in each"
            )
    machines = [one.machines[0] for one in loaded]
    if machines[0].name == machines[1].name:
        raise ValueError(f"{ask.source} and {ask.target} are both the machine {machines[0].name}")
    named = [
        {service.name: (guest, service) for guest in machine.guests for service in guest.services}
        for machine in machines
    ]
    both = sorted(named[0].keys() & named[1].keys())
    if ask.service is not None and ask.service not in both:
        raise ValueError(
            f"--service {ask.service}: both inventories must name it; both name {', '.join(both) or 'none'}"
        )
    if ask.service is None and len(both) != 1:
        there = ", ".join(both) or "none"
        raise ValueError(
            f"{ask.source} and {ask.target} both name {there}: "
            + ("say which with --service" if both else "write the service into the target's inventory too")
        )
    name = ask.service or both[0]
    ends = []
    for role, word, machine, services in zip(
        ("source", "target"), (ask.source, ask.target), machines, named, strict=True
    ):
        guest, service = services[name]
        if role == "target":
            machine = live.alone(machine, guest, service)
            guest, service = next(
                (one, here) for one in machine.guests for here in one.services if here.name == name
            )
        ends.append(End(role, word, machine, guest, service))  # type: ignore[arg-type]
    if at := one_address(ends[0], ends[1]):
        raise ValueError(
            f"{ask.source} and {ask.target} are both reached at {at}: a service moves between two"
        )
    return ends[0], ends[1], (loaded[0].path, loaded[1].path)


def _pair(ask: Asked, ends: Ends, source: End, target: End) -> Pair:
    """What the preflight knows of both; on the way back it is not asked, and time counts."""
    if ask.way not in ("begin", "dry-run"):
        return Pair("", source, target, cold=ask.cold, reboot=ask.reboot, port=files.port(target))
    one = known.desired(source, ends.source.wanted, ends.source.observed()) if ends.source else None
    two = known.desired(target, ends.target.wanted, ends.target.observed())
    return Pair(
        "",
        source,
        target,
        cold=ask.cold,
        reboot=ask.reboot,
        digests=known.digests(one),
        same_key=known.same_key(one, two),
        commands={"source": known.command(source, one), "target": known.command(target, two)},
        port=files.port(target),
    )


def _moving(ask: Asked, ends: Ends, pair: Pair, run: str, since: str | None = None) -> Moving:
    source: Side | Dead = ends.source or Dead(pair.source)
    settings = files.settings(pair)
    moved = files.folders(pair)
    ends.belong_to(Migrating(run))
    ends.target.arriving = frozenset(folder.target_path for folder in moved)
    moving = Moving(
        run,
        ends.source,
        ends.target,
        say_on_stderr,
        ends.session.journal.write,
        f"{getpass.getuser()}@{socket.gethostname()}",
        pair.source.name,
        lambda m: list(_look(ask, ends, pair, m).refusals),
        Copy(run, ends.source, ends.target, moved, settings) if ends.source and moved else None,
        traffic(run, source, ends.target),
        models_from=ask.models_from,
    )
    proofs = Proofs(pair.source, runs_folder() / run)
    moving.prove, moving.measure = proofs.answers, proofs.speed
    if since is not None:
        moving.since = since
    return moving


def _look(ask: Asked, ends: Ends, pair: Pair, m: Moving) -> Shown:
    pair = files.reached(replace(pair, run=m.run), m.source, m.target)
    table = tuple((step.name, step.text) for step in steps.of(m))
    one = ends.source
    starts = None if one is None else known.starts(pair.source, one.wanted, one.observed())
    shown = preflight(pair, m.source, m.target, m.target.plan(PHASES), starts=starts, steps=table)
    more = m.traffic.check(cold=m.cold) if m.traffic is not None else []
    if more:
        shown = present.refused(shown, more)
    present.shown(shown, quiet=ask.as_json)
    return shown


def _dry_run(ask: Asked, ends: Ends, pair: Pair) -> Answer:
    m = _moving(ask, ends, pair, new_run_id())
    shown = _look(ask, ends, pair, m)
    return Answer(EXIT_REFUSED if shown.refusals else EXIT_DONE, shown.as_dict())


def _begin(ask: Asked, ends: Ends, pair: Pair) -> Answer:
    m = _moving(ask, ends, pair, new_run_id())
    kept: list[Shown] = []

    def look(moving: Moving) -> list[Refusal]:
        kept.append(_look(ask, ends, pair, moving))
        moving.tell("plan", **kept[0].event())
        return list(kept[0].refusals)

    m.look = look
    try:
        runbook.begin(m)
    except Refused:
        return Answer(EXIT_REFUSED, kept[0].as_dict())
    if not ask.yes and not present.confirmed(
        m.target.service.name, m.peer, m.target.name, sys.stdin.isatty()
    ):
        runbook.forget(m)
        return Answer(EXIT_USAGE, kept[0].as_dict())
    return _forward(ask, m, resumed=False)


def _resume(ask: Asked, ends: Ends, pair: Pair) -> Answer:
    records = _records(ends)
    open_now = [one for one in records if one.state == "open"]
    if not open_now:
        raise ValueError(_none_open(pair, records))
    m = _moving(ask, ends, pair, _one_run(records), open_now[0].since)
    m.hold()
    return _forward(ask, m, resumed=True)


def _forward(ask: Asked, m: Moving, *, resumed: bool) -> Answer:
    document: dict[str, Any] = {"run": m.run, "service": m.target.service.name}
    try:
        with _interrupts(ask, m):
            runbook.forward(m, resumed=resumed)
    except StepFailed as failed:
        present.failed(failed, ask.source, ask.target, m.peer, m.run)
        return Answer(
            EXIT_ERROR, document | {"failed": failed.step, "error": str(failed), "left": failed.left}
        )
    present.moved(m, ask.source, ask.target)
    return Answer(EXIT_DONE, document | {"state": "moved"})


def _rollback(ask: Asked, ends: Ends, pair: Pair) -> Answer:
    records = _records(ends)
    live_ones = [one for one in records if one.state in ("open", "moved")]
    if not live_ones:
        raise ValueError(_none_open(pair, records))
    m = _moving(ask, ends, pair, _one_run(records), live_ones[0].since)
    m.hold()
    reached = runbook.reached(live_ones)
    if not ask.yes and not present.confirmed_back(
        m.target.service.name, m.peer, m.target.name, sys.stdin.isatty()
    ):
        return Answer(EXIT_USAGE, {"run": m.run})
    with _interrupts(ask, m):
        left = runbook.rollback(m, reached)
    present.back(m, left, ask.source, ask.target)
    document = {"run": m.run, "state": "rolled_back" if not left else "open", "left": left}
    return Answer(EXIT_ERROR if left else EXIT_DONE, document)


def _records(ends: Ends) -> list[Record]:
    sides = [side for side in (ends.source, ends.target) if side is not None]
    return [one for one in map(record.read, sides) if one is not None]


def _one_run(records: list[Record]) -> str:
    runs = {one.run for one in records if one.state in ("open", "moved")}
    if len(runs) > 1:
        raise RunError(
            f"the two machines are in different migrations ({', '.join(sorted(runs))}): each is closed with its own "
            "two inventories"
        )
    return runs.pop()


def _none_open(pair: Pair, records: list[Record]) -> str:
    name = pair.target.service.name
    said = [f"{one.run} is {one.state}" for one in records]
    return (
        f"no migration of {name} from {pair.source.name} to {pair.target.name} is open"
        + (f" ({'; '.join(said)})" if said else f" (neither machine has {standing.path(name)})")
        + "; without an option one begins"
    )


@contextmanager
def _interrupts(ask: Asked, m: Moving) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        present.interrupted(m, ask.source, ask.target)
        raise
