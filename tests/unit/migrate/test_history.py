"""A move that ended is history to the next one: kept while that one is open, there again when it is taken back, gone
when it is through. Two hosts in the model, with the scripts themselves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from provision.migrate import beginning, on_target, runbook, standing
from provision.migrate.finalize import finalize
from provision.migrate.standing import Record
from provision.plan import Refusal
from provision.run.errors import ActFailed, Refused
from tests.unit.migrate import model_laws
from tests.unit.migrate.model import NoNamespace, World
from tests.unit.migrate.model_move import Controller, furnish, quick

FILE, FORMER = standing.path("chat"), standing.former("chat")
ENDED = Record("20261101T000000Z-000000", "chat", "source", "kpro6", "me", "stop", "finalized", "then")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """The service serves on the source, and once moved there for good from what is the target now."""
    quick(monkeypatch)
    try:
        made = World(tmp_path / "hosts")
    except NoNamespace as error:
        pytest.skip(str(error))
    furnish(made)
    monkeypatch.setenv("XDG_STATE_HOME", str(made.stage / "state"))
    made.at("target", "host", FILE).write_bytes(ENDED.dump())
    made.at("source", "host", FILE).write_bytes(replace(ENDED, role="target", peer="kpro5").dump())
    yield made
    made.close()


@pytest.fixture
def controller(world: World) -> Iterator[Controller]:
    made = Controller(world)
    yield made
    made.close()


def files(world: World) -> dict[str, str]:
    """What both machines have in their state files, kept ones too."""
    found = {}
    for role in ("source", "target"):
        for path in (FILE, FORMER):
            file = world.at(role, "host", path)
            if file.is_file():
                one = json.loads(file.read_text())
                found[f"{role}{file.suffix}"] = f"{one['role']} {one['state']}"
    return found


BEFORE = {"source.json": "target finalized", "target.json": "source finalized"}


def test_a_service_moves_back_and_the_move_that_had_ended_is_history(
    world: World, controller: Controller
) -> None:
    assert files(world) == BEFORE
    m = controller.moving()
    controller.begin(m)
    assert files(world)["target.former"] == "source finalized"
    runbook.forward(m)
    assert model_laws.serving(world) == ["target"]
    assert files(world)["target.json"] == "target moved"
    assert on_target.is_warm(m)
    finalize(m, remove_models=False)
    assert files(world) == {"source.json": "source finalized", "target.json": "target finalized"}
    assert model_laws.serving(world) == ["target"]


@pytest.mark.parametrize("through", [False, True])
def test_a_move_back_that_is_taken_back_leaves_what_was_there(
    through: bool, world: World, controller: Controller
) -> None:
    before = {role: world.at(role, "host", FILE).read_bytes() for role in ("source", "target")}
    m = controller.moving()
    controller.begin(m)
    if through:
        runbook.forward(m)
    assert controller.command("rollback") == 0, controller.said
    assert {role: world.at(role, "host", FILE).read_bytes() for role in ("source", "target")} == before
    assert files(world) == BEFORE
    assert controller.command("rollback") == 2
    assert files(world) == BEFORE


def test_a_move_back_that_is_refused_leaves_what_was_there(world: World, controller: Controller) -> None:
    m = replace(controller.moving(), look=lambda m: [Refusal("x", "no", "why", "next")])
    with pytest.raises(Refused):
        beginning.begin(m)
    assert files(world) == BEFORE


def test_what_cannot_be_kept_is_never_written_over(world: World, controller: Controller) -> None:
    world.run("target", "host", f"mkdir -p {FORMER}/x")
    with pytest.raises(ActFailed, match="cannot be kept"):
        beginning.begin(controller.moving())
    assert files(world)["target.json"] == "source finalized"


def test_what_an_older_run_kept_is_not_taken_for_what_was_there(world: World, controller: Controller) -> None:
    world.at("target", "host", FILE).rename(world.at("target", "host", FORMER))
    controller.begin(controller.moving())
    assert controller.command("rollback") == 0, controller.said
    assert files(world) == {"source.json": "target finalized"}
