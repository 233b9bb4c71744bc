"""Step 2 of a migration: both ends are looked at, all that speaks against it is listed, and what would be done shown.

Nothing is changed: one script for each machine and one for each guest, each read-only.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from checks import snapshot
from checks.snapshot import Snapshot
from provision.host._wire import Completed
from provision.migrate import earlier, gates, looks, notes
from provision.migrate.case import Case
from provision.migrate.decide import judge
from provision.migrate.ends import Asked, End, Pair
from provision.migrate.expected import expected
from provision.migrate.moves import moves
from provision.migrate.reading import guest_look, guest_state, machine_look
from provision.migrate.seen import Looks
from provision.migrate.shown import Shown
from provision.plan import Plan
from provision.run.errors import RunError
from provision.stack.forecast import Figures

LOOK_SECONDS = 300
"""A guest whose model folder has many files on a slow disk needs most of it."""


class Ways(Protocol):
    """What is needed of an end: a shell as root on its machine, and one in its guest."""

    def host(self, script: str, *, stdin: bytes = b"", timeout: float | None = 60) -> Completed: ...

    def inside(self, script: str, *, stdin: bytes = b"", timeout: float | None = 60) -> Completed: ...


def preflight(
    pair: Pair,
    source: Ways | None,
    target: Ways,
    plan: Plan,
    *,
    starts: Figures | None = None,
    rate: float | None = None,
    steps: Sequence[tuple[str, str]] = (),
    ask: bool = True,
) -> Shown:
    """Everything, in five round trips. ``plan``: the target's own, without the models that the copy brings and without
    candidates. ``ask``: put the gates that need files alone to the source's files. Raises RunError when an end could
    not be looked at at all."""
    one = look(pair, pair.source, source) if source is not None else None
    two = look(pair, pair.target, target)
    if source is not None and ask:
        pair = replace(pair, asked=(*pair.asked, *asked(pair, source)))
    case = Case(pair, one, two, plan)
    found = moves(case)
    migration = pair.target.service.migration
    return Shown(
        pair,
        one,
        two,
        plan,
        tuple(judge(one, two, pair, plan)),
        tuple(notes.notes(case)),
        found,
        expected(
            pair,
            found,
            starts or Figures(),
            rate=rate,
            bwlimit=migration.transfer.bwlimit_mib if migration else None,
            leads=None if migration is None else migration.traffic,
        ),
        tuple(steps),
        earlier.follows(case),
    )


def look(pair: Pair, end: End, ways: Ways, now: Callable[[], float] = time.time) -> Looks:
    """One look at the machine and, where its guest runs, one into it. Raises RunError."""
    before = now()
    seen = _snapshot(end.name, ways.host, looks.host_requests(end))
    after = now()
    state = guest_state(end, seen)
    inside = None
    if state == "running":
        name = f"{end.guest.name} on {end.name}"
        inside = guest_look(pair, end, _snapshot(name, ways.inside, looks.guest_requests(pair, end)))
    return Looks(machine_look(end, seen, before, after), state, inside)


def _snapshot(name: str, run: Callable[..., Completed], requests: Sequence[str]) -> Snapshot:
    try:
        done = run(looks.script(requests), timeout=LOOK_SECONDS)
        if done.ok:
            return snapshot.parse(done.stdout)
        why = done.error_text[-400:] or f"exit {done.rc}"
    except (OSError, snapshot.SnapshotError) as error:
        why = str(error)
    raise RunError(f"{name} could not be looked at: {why}")


def asked(pair: Pair, source: Ways) -> tuple[Asked, ...]:
    """The gates of files alone, asked in the source's guest about its files and the target's engine and GPUs."""
    found = []
    for gate, words in gates.questions(pair):
        try:
            done = source.inside(gates.script(words), timeout=gates.SECONDS + 30)
        except OSError as error:
            found.append(Asked(gate, "unknown", (str(error),)))
            continue
        found.append(gates.read(gate, done.rc, _report(done.stdout), done.error_text))
    return tuple(found)


def _report(text: bytes) -> Mapping[str, object] | None:
    try:
        report = json.loads(text)
    except ValueError:
        return None
    return report if isinstance(report, dict) else None
