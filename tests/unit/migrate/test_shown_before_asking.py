"""What ``--rollback`` and ``--finalize`` would do is shown before anybody is asked, also where nobody can be."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from provision.migrate import rolling_back, run, steps, unreached
from provision.migrate.asked import Asked
from tests.unit.migrate.test_runbook import World, begun, world

__all__ = ["world"]


def ask(as_json: bool = False) -> Asked:
    known = {one.name: False for one in fields(Asked)} | {"source": "a", "target": "b", "service": None}
    return Asked(**{**known, "models_from": "", "as_json": as_json})  # type: ignore[arg-type]


@pytest.fixture
def place(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    begun(world)
    for side in world.m.sides:
        side.kept = world.m.record(side, "gate")  # type: ignore[attr-defined]
    kept = [side.kept for side in world.m.sides]  # type: ignore[attr-defined]
    monkeypatch.setattr(unreached, "heard", lambda ends: (kept, ""))
    monkeypatch.setattr(unreached, "hold", lambda m, away: away)
    monkeypatch.setattr(run, "_records", lambda ends: [replace(one, state="moved") for one in kept])
    monkeypatch.setattr(run, "moving", lambda *_: world.m)
    monkeypatch.setattr(type(world.m), "hold", lambda m: None)
    monkeypatch.setattr("sys.stdin.isatty", lambda: False)
    return world


def test_a_way_back_without_a_terminal_shows_what_it_would_do(
    place: World, capsys: pytest.CaptureFixture[str]
) -> None:
    nobody: Any = None
    assert run._rollback(ask(), nobody, nobody).exit_code == 2
    said = capsys.readouterr().err
    plan, _, asked = said.partition("error: there is no terminal to ask on")
    assert asked
    assert plan.splitlines()[0].endswith("which came to gate")
    assert plan.splitlines()[1].startswith("  a ")
    assert "first: fence away" in plan.splitlines()[1]
    assert "warm: its unit is stopped and removed" in plan
    assert place.did == []
    assert run._rollback(ask(as_json=True), nobody, nobody).exit_code == 2
    assert "fence away" not in capsys.readouterr().err


def test_giving_the_source_up_without_a_terminal_shows_what_goes(
    place: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody: Any = None
    names = {"name": "tiny", "unit": "kpro-tiny.service", "found": None}
    for side in place.m.sides:
        monkeypatch.setattr(type(side), "service", type("Service", (), names))
    assert run._finalize(ask(), nobody, nobody).exit_code == 2
    plan, _, asked = capsys.readouterr().err.partition("error: there is no terminal to ask on")
    assert asked
    assert "there is no way back" in plan
    assert "model files stay" in plan


def test_before_the_drain_nothing_is_done_on_the_source(world: World) -> None:
    said = rolling_back.lines(world.m, "warm")
    assert "nothing is done there" in said[1]
    assert not [line for line in rolling_back.lines(world.m, "copy") if "warm:" in line]


def test_what_is_undone_is_shown_in_the_order_of_the_runbook(world: World) -> None:
    said = [line.split()[1].rstrip(":") for line in rolling_back.lines(world.m, "stop")[2:]]
    assert said == [one.name for one in reversed(steps.of(world.m)) if one.undo is not steps.nothing]
