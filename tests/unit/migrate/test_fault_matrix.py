"""Every fault at every step of a migration, and both ways on from it, against two hosts with real files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from provision.migrate import runbook
from provision.migrate.runbook import StepFailed
from provision.run.errors import RunError
from tests.unit.migrate import model_laws
from tests.unit.migrate.model import Killed, World
from tests.unit.migrate.model_faults import LAST, NAMES, Cell, Trap, cells
from tests.unit.migrate.model_laws import Tree
from tests.unit.migrate.model_move import Controller, furnish, quick
from tests.unit.migrate.model_specs import ROLES, Role


@dataclass
class Stage:
    """A world, as it is before each step of a migration that nothing disturbs."""

    world: World
    before: dict[Role, Tree]
    commands: dict[str, int] = field(default_factory=dict)
    alike: dict[str, dict[str, str]] = field(default_factory=dict)


def trunk(folder: Path, patch: pytest.MonkeyPatch, *, extra: bool) -> Stage:
    """Runs a migration once, and keeps what both hosts are like before each step."""
    world = World(folder, extra)
    furnish(world)
    patch.setenv("XDG_STATE_HOME", str(world.stage / "state"))
    stage = Stage(world, {role: model_laws.tree(world, role) for role in ROLES})
    controller = Controller(world)
    at = ["lock"]
    world.keep("lock")

    def told(event: str, facts: dict[str, object]) -> None:
        if event == "step" and facts["state"] == "begin":
            stage.commands[at[0]] = world.calls
            at[0], world.calls = str(facts["step"]), 0
            if at[0] != "lock":
                world.keep(at[0])
                stage.alike[at[0]] = model_laws.alike(world)
        elif event == "step" and (facts["step"], facts["state"]) == ("stop", "done"):
            stage.commands["stop"], at[0], world.calls = world.calls, LAST, 0

    controller.told = told
    m = controller.moving()
    controller.begin(m)
    runbook.forward(m)
    stage.commands[LAST] = world.calls
    world.keep("end")
    controller.close()
    return stage


@pytest.fixture(scope="module")
def patched() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        quick(patch)
        yield patch


@pytest.fixture(scope="module", params=[False, True], ids=["stays-warm", "stops"])
def stage(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, patched: pytest.MonkeyPatch
) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("model") / "hosts"
    found = trunk(folder, patched, extra=request.param)
    yield found
    found.world.close()


class Joined(BaseException):
    """From here on it is the run that nothing disturbs, file for file: that one was seen to its end."""


def joins(stage: Stage, cell: Cell) -> Callable[[str, dict[str, object]], None]:
    """Watches a ``--resume`` until it is past the step of the fault."""
    past = NAMES.index(cell.step)

    def told(event: str, facts: dict[str, object]) -> None:
        if event != "step" or facts["state"] != "begin" or NAMES.index(str(facts["step"])) <= past:
            return
        if model_laws.alike(stage.world) == stage.alike[str(facts["step"])]:
            raise Joined

    return told


def play(stage: Stage, cell: Cell, *, whole: bool = False) -> list[str]:
    """One cell; what is wrong at its end. ``whole``: also where it joins a run that was seen already."""
    world = stage.world
    world.back_to(cell.step if cell.step != LAST else "stop")
    controller = Controller(world)
    trap = Trap(world, controller, cell, stage.commands[cell.step])
    controller.told, world.before = trap.told, trap.before
    m = controller.moving()
    outcome = "done"
    try:
        if cell.step in ("lock", "preflight"):
            controller.begin(m)
            controller.from_step(m, NAMES[2])
        else:
            controller.from_step(m, cell.step if cell.step != LAST else "stop")
    except (Killed, KeyboardInterrupt, StepFailed, RunError, OSError) as error:
        outcome = f"{type(error).__name__}: {error}"
    world.before = lambda end, script: None
    world.dead = False
    controller.let_go()
    wrong = [] if trap.sprung else [f"the fault never came ({outcome})"]
    fault = cell.fault
    if not fault.kills and not fault.away and model_laws.serving(world) not in (["source"], ["target"]):
        wrong.append(f"after {outcome} it stopped by itself, and nobody answers")
    fault.mend(world, controller)
    controller.told = joins(stage, cell) if cell.way == "resume" and not whole else lambda event, facts: None
    try:
        codes = [controller.command(cell.way)]
    except Joined:
        controller.close()
        return [f"outcome: {outcome}", *wrong, *controller.said] if wrong else []
    moved = (cell.way == "resume" and codes == [0]) or (outcome == "done" and cell.way == "resume")
    wrong += model_laws.breaches(world, stage.before, "moved" if moved else "rolled_back")
    now = {role: model_laws.tree(world, role, times=True) for role in ROLES}
    codes.append(controller.command(cell.way))
    for role in ROLES:
        then = model_laws.tree(world, role, times=True)
        wrong += [
            f"{role}: a second --{cell.way} changes {path}"
            for path, text in (now[role].items() ^ then.items())
        ]
    if codes not in ([0, 2], [2, 2]):
        wrong.append(f"--{cell.way} ended with {codes}")
    controller.close()
    if wrong:
        wrong = [f"outcome: {outcome}", *wrong, *controller.said]
    return wrong


@pytest.mark.parametrize("cell", list(cells())[::7], ids=str)
def test_cell(stage: Stage, cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(stage.world.stage / "state"))
    wrong = play(stage, cell)
    assert not wrong, "\n".join(wrong)
