"""The runbook carried out: forward, on from where it was cut, or back. It knows ends and steps, and no host.

A red step before the drain stops there, with the source serving; one after it is taken back at once, the source first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from provision.migrate import cut, record, steps
from provision.migrate.beginning import forget
from provision.migrate.copy.model import CopyFailed
from provision.migrate.moving import Moving
from provision.migrate.scratch import sweep
from provision.migrate.sides import Side
from provision.migrate.standing import Record
from provision.migrate.steps import Step
from provision.run import ending
from provision.run.errors import ActFailed, RunError

TROUBLE = (RunError, OSError, CopyFailed)
"""What a step may raise: the operator's to know."""


class StepFailed(RunError):
    """``step``: which; ``back``: the source serves again (None: it never stopped)."""

    def __init__(self, step: str, why: str, back: bool | None, left: Sequence[str] = ()) -> None:
        self.step, self.back, self.left = step, back, tuple(left)
        super().__init__(why)


def forward(m: Moving, *, resumed: bool = False) -> None:
    """All steps from the first whose proof does not hold. Raises StepFailed, after what the step calls for."""
    todo = steps.of(m)
    start = _where_to_go_on(m, todo) if resumed else 0
    for step in todo[start:]:
        _one(m, step)
    _close(m)


def _where_to_go_on(m: Moving, todo: Sequence[Step]) -> int:
    """``first_open``; who is interrupted there is, in the cut-over, as well where nobody answers."""
    try:
        return first_open(m, todo)
    except KeyboardInterrupt:
        began: list[str] = []
        for side in m.sides:
            with suppress(*TROUBLE):
                there = record.read(side)
                began += [there.step] if there is not None else []
        if any(steps.at_or_after(step, one.name) for step in began for one in todo if one.window):
            try:
                _source_first_of_all(m, began[-1])
            finally:
                _write(m, began[-1], "")
        raise


def first_open(m: Moving, todo: Sequence[Step]) -> int:
    """The index of the first step that is not done, as it is looked at now."""
    unseen: int | None = None
    for index, step in enumerate(todo):
        if not step.holds(m):
            if unseen is None:
                unseen = index
            if not step.fleeting:
                return unseen
        elif step.passed(m):
            unseen = None
    return len(todo) if unseen is None else unseen


def _one(m: Moving, step: Step) -> None:
    began = time.monotonic()
    try:
        m.hold()
        m.note(step.name, "begin")
        m.say(f"{step.name}: {step.text}")
        if why := step.needs(m):
            raise ActFailed(why)
        proven = step.does(m)
        m.note(step.name, "done", seconds=_since(began), text=proven)
        m.say(f"{step.name}: done in {_since(began):.1f} s: {proven}")
    except TROUBLE as error:
        _red(m, step, began, str(error))
    except KeyboardInterrupt:
        line = _line(m, step.name, "failed", seconds=_since(began), why="interrupted")
        try:
            if step.window:
                _source_first_of_all(m, step.name)
        finally:
            _write(m, step.name, line)
        raise


def _source_first_of_all(m: Moving, step: str) -> None:
    """In an interrupted cut-over; whatever is pressed meanwhile."""
    if not m.cold:
        m.say(f"interrupted at {step}, where the source gets no requests: it is brought back first")
        try:
            source_first(m, step)
        finally:
            # All else stays as it is: the run can go on from here as well as back.
            m.back = "paused" if m.back == "serves" else m.back


def _red(m: Moving, step: Step, began: float, why: str) -> None:
    m.say(f"{step.name}: FAILED after {_since(began):.1f} s: {why}")
    line = _line(m, step.name, "failed", seconds=_since(began), why=why)
    if not step.window or m.cold:
        _write(m, step.name, line)
        raise StepFailed(step.name, why, None)
    # Before anything is asked of a target that may be what is gone.
    try:
        source_first(m, step.name)
    finally:
        _write(m, step.name, line)
    left = rollback(m, step.name, seen=not m.unserved)
    raise StepFailed(step.name, why, not left, left)


def rollback(
    m: Moving, reached: str, *, through: bool = False, away: str = "", seen: bool = False
) -> list[str]:
    """Back to the source serving, from any step; what could not be undone, empty when all is. ``reached``: the last
    step that began. ``through``: the machines say that the service has moved. ``away``: why the target is not reached;
    then it is left as it is, and the migration stays open. ``seen``: the source was brought back just now, which is
    looked at once more and not told again."""
    todo = [step for step in steps.of(m) if steps.at_or_after(reached, step.name)]
    left: list[str] = []
    if m.cold and any(step.name == "switch" for step in todo):
        name = m.target.service.name
        return [f"{m.peer} was dead when {name} came to {m.target.name}: there is nothing to go back to"]
    window = any(step.window for step in todo) and not m.cold
    if through and window and (why := cut.may_bring_back(m)):
        return [why]
    m.back = "begun" if window or m.cold else "serves"
    if through:
        _reopen(m)
    if window and (why := source_first(m, reached, again=seen)):
        # Whatever serves now is left alone: a target that is taken away before the source is back leaves nobody.
        return [why, *([_not_reached(m, away)] if away else [])]
    if away:
        return _waiting(m, todo, away)
    if any(step.name == "warm" for step in todo) and (why := cut.may_take_away(m)):
        return [why]
    for step in _undoing(todo):
        why = _undone(m, step.name, step.undo)
        left += [why] if why else []
    if not left:
        why = _undone(m, "lock", _let_go)
        left += [why] if why else []
    return left


def _undoing(todo: Sequence[Step]) -> list[Step]:
    """What is undone, in that order."""
    return [step for step in reversed(todo) if step.undo is not steps.nothing]


def _not_reached(m: Moving, away: str) -> str:
    return f"{m.target.name} is not reached ({away}): what the run left there stays until the same command reaches it"


def _waiting(m: Moving, todo: Sequence[Step], away: str) -> list[str]:
    """What is left on a target that is not reached, and what that means for whoever asks the service."""
    name, there = m.target.service.name, m.target.name
    if not any(one.window for one in todo):
        m.say(f"the run had not begun to keep requests from {m.peer}: there is nothing to bring back there")
    said = [_not_reached(m, away), *(f"then, there: {one.name}: {one.way_back}" for one in _undoing(todo))]
    if any(one.name == "warm" for one in todo):
        led = "no request is led there" if m.traffic is not None else "see that no client asks it there"
        said.append(
            f"should {there} boot before that, {name} starts there and answers at its own address: {led}"
        )
    return said


def _reopen(m: Moving) -> None:
    """A migration that was through is open again before anything of it is taken back: whoever is cut off meanwhile goes
    on from there, and nobody reads that the source is stopped."""
    line = m.tell("step", step="moved", state="undone")
    for side in m.sides:
        with suppress(*TROUBLE):
            record.write(side, m.record(side, steps.NAMES[-1]), line)


def source_first(m: Moving, step: str, *, again: bool = False) -> str:
    """The source serves, before anything else is undone; the target is not needed. Empty, or why it does not. An
    interrupt is raised after it. ``step``: the one that is left; ``again``: it did a moment ago."""
    seconds = cut.back_seconds(m)
    m.led = steps.at_or_after(step, "switch")
    # Until it is known: an interrupt at the very end must not read as success.
    m.unserved, m.back = "it was not seen to serve", "begun"
    held = f"{m.peer} is brought back first, {seconds} s at most (kill -9 leaves it as it is); then this run ends"
    with ending.held(held, seconds):
        m.unserved = _undone(m, "drain", cut.bring_back, m.living(), quiet=again)
    return m.unserved


def _undone(m: Moving, name: str, undo: Callable[[Moving], str], *needed: Side, quiet: bool = False) -> str:
    """``needed``: the machines that it is done on; none named: both. ``quiet``: success was told already."""
    began = time.monotonic()
    try:
        for side in needed or m.sides:
            side.hold()
        said = undo(m)
    except TROUBLE as error:
        m.say(f"{name}: could not be undone: {error}")
        _told(m, name, "undo failed", seconds=_since(began), why=str(error))
        return f"{name}: {error}"
    if said and not quiet:
        m.say(f"{name}: undone in {_since(began):.1f} s: {said}")
    if name != "lock" and not quiet:
        _told(m, name, "undone", seconds=_since(began), text=said)
    return ""


def _let_go(m: Moving) -> str:
    """What the run itself left on both machines is away."""
    _told(m, "lock", "undone")
    forget(m)
    return "nothing of this run is left on either machine"


def _close(m: Moving) -> None:
    """The service has moved: what only the way there needed goes; the source waits for ``--finalize``. Raises
    ActFailed; nothing is taken back for what is left to do then."""
    try:
        if m.copy is not None:
            m.copy.clean()
        for side in m.sides:
            sweep(side, m.run)
        line = m.tell("step", step="moved", state="done")
        # The source first: a cut between the two leaves a target that says it is still open, which --resume finishes.
        for side in m.sides:
            record.write(side, m.record(side, "stop", "moved"), line)
    except TROUBLE as error:
        raise ActFailed(
            f"{m.target.service.name} serves on {m.target.name}: every step is done, and the run could not be closed: "
            f"{error}. Next: --resume finishes it"
        ) from error


def _told(m: Moving, step: str, state: str, **facts: object) -> None:
    """Writes down what happened already: a machine that is gone does not keep it from being dealt with."""
    _write(m, step, _line(m, step, state, **facts))


def _line(m: Moving, step: str, state: str, **facts: object) -> str:
    with suppress(*TROUBLE):
        return m.tell("step", step=step, state=state, **facts)
    return ""


def _write(m: Moving, step: str, line: str) -> None:
    for side in m.sides:
        with suppress(*TROUBLE):
            record.write(side, m.record(side, _where(side, step)), line)


def _where(side: Side, step: str) -> str:
    """A step that is undone is no step that began: what began last stays written."""
    with suppress(*TROUBLE):
        there = record.read(side)
        if there is not None and steps.at_or_after(there.step, step):
            return there.step
    return step


def reached(records: Sequence[Record]) -> str:
    """The last step that began, as either machine has it."""
    return max(
        (one.step for one in records),
        key=lambda name: steps.NAMES.index(name) if name in steps.NAMES else len(steps.NAMES),
    )


def _since(began: float) -> float:
    return round(time.monotonic() - began, 2)


__all__ = [
    "StepFailed",
    "first_open",
    "forward",
    "reached",
    "rollback",
    "source_first",
]
