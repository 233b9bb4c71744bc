"""One migration of the model that nothing disturbs, and cells that leave it at one point and are seen to their ends."""

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
from tests.unit.migrate.model_faults import LAST, NAMES, Cell, Trap, Way
from tests.unit.migrate.model_laws import Tree
from tests.unit.migrate.model_move import Controller, furnish
from tests.unit.migrate.model_specs import ROLES, Role


@dataclass
class Stage:
    """A world, as it is before each step of a migration that nothing disturbs."""

    world: World
    before: dict[Role, Tree]
    commands: dict[str, int] = field(default_factory=dict)
    """How many the controller gives in each step, and (``back``) for the way back from its end."""
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
    world.calls = 0
    assert controller.command("rollback") == 0, controller.said
    stage.commands["back"] = world.calls
    controller.close()
    return stage


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
    cell.fault.mend(world, controller)
    wrong += _stopped(world, cell, outcome)
    if cell.way == "resume" and not whole:
        controller.told = joins(stage, cell)
    return _to_the_end(stage, controller, cell.way, outcome, wrong)


def _stopped(world: World, cell: Cell, outcome: str) -> Iterator[str]:
    """Who answers before anybody says how it goes on."""
    fault, led = cell.fault, model_laws.serving(world)
    at = NAMES.index(cell.step)
    if outcome == "done" or (cell.step == LAST and not outcome.startswith("StepFailed")):
        wanted: Role = "target"
    elif at < NAMES.index("drain") or not (fault.kills or "source" in fault.away):
        # Nothing has begun that could keep it from clients, or it is brought back first of all.
        wanted = "source"
    else:
        return
    if led != [wanted]:
        yield f"after {outcome} clients are answered by {led}, not by {wanted} alone"


def _to_the_end(stage: Stage, controller: Controller, way: Way, outcome: str, wrong: list[str]) -> list[str]:
    """The next command, and the same once more; what is wrong, with all that was said."""
    world = stage.world
    try:
        codes = [controller.command(way)]
    except Joined:
        return [f"outcome: {outcome}", *wrong, *controller.said] if wrong else []
    finally:
        controller.close()
    moved = codes == [0] or model_laws.state(world, "source") == "moved" if way == "resume" else False
    wrong += model_laws.breaches(world, stage.before, "moved" if moved else "rolled_back")
    now = {role: model_laws.tree(world, role, times=True) for role in ROLES}
    codes.append(controller.command(way))
    controller.close()
    for role in ROLES:
        changed = now[role].items() ^ model_laws.tree(world, role, times=True).items()
        wrong += [
            f"{role}: a second --{way} changes {path}" for path in sorted({path for path, _ in changed})
        ]
    if codes not in ([0, 2], [2, 2]):
        wrong.append(f"--{way} ended with {codes}")
    return [f"outcome: {outcome}", *wrong, *controller.said] if wrong else []


def cut_back(stage: Stage, number: int, way: Way) -> list[str]:
    """From a migration that is through, a ``--rollback`` whose controller is killed before its command ``number``, and
    what comes after it; what is wrong at its end."""
    world = stage.world
    world.back_to("end")
    controller = Controller(world)

    def before(end: object, script: str) -> None:
        if world.calls == number:
            world.dead = True

    world.before = before
    outcome = "done"
    try:
        controller.command("rollback")
    except Killed:
        outcome = "killed"
    world.before = lambda end, script: None
    world.dead = False
    wrong = [] if outcome == "killed" else ["it was never killed"]
    if len(model_laws.serving(world)) != 1:
        wrong.append("nobody answers in between, though both could")
    return _to_the_end(stage, controller, way, outcome, wrong)
