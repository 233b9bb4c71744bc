"""The target held against the source, answers and speed, with what was found in the journal."""

from __future__ import annotations

import shlex
from contextlib import suppress
from pathlib import Path

from provision.migrate import answers, speed
from provision.migrate.alike import Specs
from provision.migrate.judged import Verdict
from provision.migrate.moving import Moving
from provision.migrate.on_target import runs, tell_gate
from provision.migrate.sides import Side
from provision.run.errors import ActFailed
from provision.run.reports import report_of
from provision.stack.desired import gate_command


class Proofs:
    """``origin``: the source as its inventory has it; ``folder``: the run's own on the controller, where the source's
    answers are kept."""

    def __init__(self, origin: Specs, folder: Path) -> None:
        self._origin = origin
        self._folder = folder

    def answers(self, m: Moving) -> str:
        """Raises ActFailed where they are not alike, or could not be compared."""
        found = answers.check(_serving(m), self._origin, m.target, m.run, self._folder, m.say)
        m.tell("answers", **{"said": found.said, **found.facts, "verdict": found.state})
        return _green(found)

    def speed(self, m: Moving) -> str:
        """Raises ActFailed where it is too slow, or could not be measured."""
        _source_gate(m)
        found = speed.check(_serving(m), self._origin, m.target, m.run, m.say)
        for reading in found.facts.get("readings", ()):
            m.tell("reading", **reading)
        m.tell("speed", verdict=found.state, said=found.said)
        return _green(found)


def _source_gate(m: Moving) -> None:
    """The gate that the target has to pass, asked of the source while it serves: it only reads, and decides nothing."""
    side = _serving(m)
    if side is None or not side.guest.managed or side.service.replay is not None:
        return
    with suppress(OSError):
        done = side.inside(shlex.join((*gate_command(side.guest, None, side.service), "--json")), timeout=180)
        tell_gate(m, side, report_of(done))


def _serving(m: Moving) -> Side | None:
    """The source while it can be asked; after its drain what was kept of it counts."""
    return m.source if m.source is not None and runs(m.source) else None


def _green(found: Verdict) -> str:
    if not found.green:
        raise ActFailed(found.why)
    return found.said
