"""``provision migrate``: which service, which run, which way; then the runbook. gevent's patches must be in place."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from provision.migrate import (
    again,
    beginning,
    cold,
    fence,
    files,
    finalize,
    led,
    live,
    present,
    rolling_back,
    runbook,
    standing,
    steps,
    unreached,
)
from provision.migrate.asked import Asked, both_ends, typed
from provision.migrate.ends import Pair
from provision.migrate.live import Ends
from provision.migrate.making import Look, moving, pair_of, starts
from provision.migrate.moving import Moving
from provision.migrate.preflight import preflight
from provision.migrate.runbook import StepFailed
from provision.migrate.scratch import sweep
from provision.migrate.shown import Shown
from provision.migrate.silence import first_of_all
from provision.migrate.standing import Record
from provision.plan import PHASES, Refusal
from provision.printable import say_on_stderr
from provision.run import ending
from provision.run.commands import Answer, finish
from provision.run.errors import EXIT_DONE, EXIT_ERROR, EXIT_REFUSED, EXIT_USAGE, Refused, RunError
from provision.run.journal import new_run_id


def migrate(ask: Asked) -> int:
    """Exit code of ``provision migrate``."""
    return finish(lambda: _migrate(ask), "migrate", ask.as_json)


def _migrate(ask: Asked) -> Answer:
    source, target, paths = both_ends(ask)
    way = () if ask.way == "begin" else (f"--{ask.way}",)
    reason = again.command({"words": typed(ask, str(Path.cwd())), "cold": ask.cold}, *way)
    with (
        _before_it_begins(ask, reason),
        live.connected(
            source,
            target,
            paths,
            reason.removeprefix("provision "),
            say_on_stderr,
            cold=ask.cold,
            reboot=ask.reboot,
            back=ask.way == "rollback",
        ) as ends,
    ):
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
            "finalize": _finalize,
        }
        pair = pair_of(ask, ends, source, target)
        answer = ways[ask.way](ask, ends, pair)
        ends.session.ended = answer.exit_code
        return answer


def _looked(ask: Asked, ends: Ends, pair: Pair) -> Look:
    return lambda m: list(_look(ask, ends, pair, m).refusals)


def _look(ask: Asked, ends: Ends, pair: Pair, m: Moving) -> Shown:
    pair = files.reached(replace(pair, run=m.run), m.source, m.target)
    table = tuple((step.name, step.text) for step in steps.of(m))
    shown = preflight(pair, m.source, m.target, m.target.plan(PHASES), starts=starts(ends, pair), steps=table)
    more = [] if m.source is None or shown.follows.unit else fence.check(m.source, m.run)
    if ask.cold:
        alive, notes = cold.asked(ask, pair, m, begun=False)
        more += alive
        shown = replace(shown, notes=(*notes, *shown.notes))
    if m.traffic is not None and not shown.follows.traffic:
        against, told = led.look(m, m.traffic, shown)
        more += against
        shown = replace(shown, notes=(*told, *shown.notes))
    if more:
        shown = present.refused(shown, more)
    present.shown(shown, quiet=ask.as_json)
    return shown


def _dry_run(ask: Asked, ends: Ends, pair: Pair) -> Answer:
    m = moving(ask, ends, pair, _looked(ask, ends, pair), new_run_id())
    shown = _look(ask, ends, pair, m)
    return Answer(EXIT_REFUSED if shown.refusals else EXIT_DONE, shown.as_dict())


def _begin(ask: Asked, ends: Ends, pair: Pair) -> Answer:
    m = moving(ask, ends, pair, _looked(ask, ends, pair), new_run_id())
    kept: list[Shown] = []

    def look(found: Moving) -> list[Refusal]:
        kept.append(_look(ask, ends, pair, found))
        found.tell("plan", **kept[0].event())
        return list(kept[0].refusals)

    m.look = look
    try:
        beginning.begin(m)
    except Refused:
        return Answer(EXIT_REFUSED, kept[0].as_dict())
    try:
        agreed = ask.yes or present.confirmed(
            m.target.service.name, m.peer, m.target.name, sys.stdin.isatty()
        )
    except BaseException:
        beginning.let_be(m)
        raise
    if not agreed:
        beginning.let_be(m)
        return Answer(EXIT_USAGE, kept[0].as_dict())
    return _forward(ask, m, resumed=False)


def _resume(ask: Asked, ends: Ends, pair: Pair) -> Answer:
    records = _records(ends)
    open_now = [one for one in records if one.state == "open"]
    if not open_now:
        raise ValueError(_none_open(pair, records))
    ask = replace(ask, models_from=ask.models_from or open_now[0].models_from)
    m = moving(ask, ends, pair, _looked(ask, ends, pair), _one_run(records), open_now[0].since)
    if ask.cold:
        cold.may_resume(ask, pair, m)
    m.hold()
    return _forward(ask, m, resumed=True)


def _forward(ask: Asked, m: Moving, *, resumed: bool) -> Answer:
    document: dict[str, Any] = {"run": m.run, "service": m.target.service.name}
    try:
        with _interrupts(ask, m):
            runbook.forward(m, resumed=resumed)
    except StepFailed as failed:
        present.failed(failed, m, ask.source, ask.target)
        return Answer(
            EXIT_ERROR, document | {"failed": failed.step, "error": str(failed), "left": failed.left}
        )
    present.moved(m, ask.source, ask.target)
    return Answer(EXIT_DONE, document | {"state": "moved"})


def _rollback(ask: Asked, ends: Ends, pair: Pair) -> Answer:
    records, away = unreached.heard(ends)
    live_ones = [one for one in records if one.state in ("open", "moved")]
    if not live_ones:
        raise unreached.unknown(pair, away) if away else ValueError(_none_open(pair, records))
    ask = replace(ask, models_from=ask.models_from or live_ones[0].models_from)
    m = moving(ask, ends, pair, _looked(ask, ends, pair), _one_run(records), live_ones[0].since)
    if ask.cold:
        cold.may_go_back(ask, pair, m)
    away = unreached.hold(m, away)
    reached = runbook.reached(live_ones)
    present.plan(rolling_back.lines(m, reached), quiet=ask.as_json)
    if not ask.yes and not present.confirmed_back(
        m.target.service.name, m.peer, m.target.name, sys.stdin.isatty()
    ):
        return Answer(EXIT_USAGE, {"run": m.run})
    with _interrupts(ask, m):
        through = any(one.state == "moved" for one in live_ones)
        left = runbook.rollback(m, reached, through=through, away=away)
    present.back(m, left, ask.source, ask.target)
    stays = "moved" if through and not m.back else "open"
    document = {"run": m.run, "state": stays if left else "rolled_back", "left": left}
    return Answer(EXIT_ERROR if left else EXIT_DONE, document)


def _finalize(ask: Asked, ends: Ends, pair: Pair) -> Answer:
    records = _records(ends)
    if any(one.state == "open" for one in records):
        raise RunError(
            f"{first_of_all(vars(records[0]))}migration {_one_run(records)} of {pair.target.service.name} is not "
            f"through (step {runbook.reached(records)}): nothing is given up before that. Next: "
            f"{again.ways_on(vars(records[0]))}"
        )
    if not any(one.state == "moved" for one in records):
        raise ValueError(_none_open(pair, records))
    ask = replace(ask, models_from=ask.models_from or records[0].models_from)
    m = moving(ask, ends, pair, _looked(ask, ends, pair), _one_run(records), records[0].since)
    if ask.cold:
        cold.may_end(ask, pair, m)
    m.hold()
    name = m.target.service.name
    present.plan(finalize.lines(m, remove_models=ask.remove_models), quiet=ask.as_json)
    if not ask.yes and not present.confirmed_end(name, m.peer, m.target.name, sys.stdin.isatty()):
        return Answer(EXIT_USAGE, {"run": m.run})
    try:
        said = finalize.finalize(m, remove_models=ask.remove_models)
        for side in m.sides:
            sweep(side, m.run)
    except KeyboardInterrupt as error:
        present.cut_end(m, ask.source, ask.target)
        raise ending.Ended("", run=m.run) from error
    present.ended(m, said)
    return Answer(EXIT_DONE, {"run": m.run, "state": "finalized", "said": said})


def _records(ends: Ends) -> list[Record]:
    records = [unreached.read(side, ends) for side in (ends.source, ends.target) if side is not None]
    return [one for one in records if one is not None]


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
    said = list(dict.fromkeys(f"{one.run} is {one.state}" for one in records))
    return (
        f"no migration of {name} from {pair.source.name} to {pair.target.name} is open"
        + (f" ({'; '.join(said)})" if said else f" (neither machine has {standing.path(name)})")
        + "; without an option one begins"
    )


@contextmanager
def _before_it_begins(ask: Asked, reason: str) -> Iterator[None]:
    """Who lets go of a command that goes on with an open migration, before it has done anything, has it still open."""
    try:
        yield
    except KeyboardInterrupt as error:
        last = ending.last()
        if ask.way in ("begin", "dry-run") or (last is not None and last.words != ending.NOTHING):
            raise
        said = "" if last is None else f"{ending.NOTHING}; "
        raise ending.Ended(f"{said}a migration that is open stays open. Next: {reason}") from error


@contextmanager
def _interrupts(ask: Asked, m: Moving) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt as error:
        present.interrupted(m, ask.source, ask.target)
        raise ending.Ended("", run=m.run, state="open", left=[m.unserved] if m.unserved else []) from error
