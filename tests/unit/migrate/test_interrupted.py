"""A runbook that is interrupted: what comes first then, what is told once, and which words come last."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest

from provision.migrate import cut, present, runbook, standing, steps
from provision.migrate.moving import Moving
from provision.migrate.steps import STEPS
from tests.unit.migrate.test_runbook import World, begun, world

__all__ = ["world"]


def test_that_the_source_is_back_is_told_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    world.m.say = said.append
    monkeypatch.setattr(cut, "bring_back", lambda m: "it generates again")
    monkeypatch.setattr(steps, "STEPS", tuple(replace(one, undo=steps.nothing) for one in steps.STEPS))
    world.red = {"drain"}
    begun(world)
    with pytest.raises(runbook.StepFailed):
        runbook.forward(world.m)
    assert [line for line in said if line.startswith("drain: undone")] == [said[-2]]
    assert world.events.count(("drain", "undone")) == 1


@pytest.mark.parametrize(("step", "expected"), [("speed", []), ("gate", ["source serves"])])
def test_who_is_interrupted_while_a_resumed_run_looks_has_the_source_back_where_nobody_may_answer(
    world: World, monkeypatch: pytest.MonkeyPatch, step: str, expected: list[str]
) -> None:
    def looks(m: Moving, todo: object) -> int:
        raise KeyboardInterrupt

    begun(world)
    for side in world.m.sides:
        side.kept = world.m.record(side, step)  # type: ignore[attr-defined]
    monkeypatch.setattr(runbook, "first_open", looks)
    with pytest.raises(KeyboardInterrupt):
        runbook.forward(world.m, resumed=True)
    assert world.did == expected
    kept = [side.kept for side in world.m.sides]  # type: ignore[attr-defined]
    assert [one.back for one in kept] == (["paused"] * 2 if expected else ["", ""])


@pytest.mark.parametrize(("step", "loud"), [("gate", "b gets no requests"), ("watch", "unless b still does")])
@pytest.mark.parametrize("red", [True, False])
def test_the_last_words_after_a_way_back_that_failed_say_that_nobody_answers(
    world: World, capsys: pytest.CaptureFixture[str], step: str, loud: str, red: bool
) -> None:
    world.red = {"source serves"} if red else set()
    begun(world)

    def interrupted(m: Moving) -> str:
        raise KeyboardInterrupt

    one = next(one for one in STEPS if one.name == step)
    with pytest.raises(KeyboardInterrupt):
        runbook._one(world.m, replace(one, does=interrupted, needs=steps.nothing))
    present.interrupted(world.m, "a.py", "b.py")
    said = capsys.readouterr().err
    assert ("NOBODY ANSWERS" in said and loud in said) is red
    last = said.splitlines()[-1]
    assert ("--resume" not in said) is red
    ways = "--rollback" if red else "--resume, or --rollback"
    assert f"provision migrate a.py b.py {ways}" in last
    # What the machines say then is the same.
    kept = [side.kept for side in world.m.sides]  # type: ignore[attr-defined]
    assert [one.back for one in kept] == ["begun" if red else "paused"] * 2
    assert all(standing.goes_on(one).startswith("provision migrate ") for one in kept)
    assert all(("--resume" not in standing.goes_on(one)) is red for one in kept)
    assert all(("interrupted at" in standing.told(asdict(one))) is not red for one in kept)
