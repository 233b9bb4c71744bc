"""One migration of the model that nothing disturbs, and cells that leave it at one point and are seen to their ends."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from provision.migrate import runbook
from provision.migrate.runbook import StepFailed
from provision.run import ending
from provision.run.errors import RunError
from tests.unit.migrate import model_laws
from tests.unit.migrate.model import End, Killed, World
from tests.unit.migrate.model_faults import FAULTS, LAST, NAMES, Cell, Trap, Way
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
    controller, outcome, wrong = _disturbed(stage, cell)
    cell.fault.mend(world, controller)
    wrong += _stopped(world, cell, outcome)
    if cell.way == "resume" and not whole:
        controller.told = joins(stage, cell)
    return _to_the_end(stage, controller, cell.way, outcome, wrong)


def _disturbed(stage: Stage, cell: Cell) -> tuple[Controller, str, list[str]]:
    """A migration that met its fault, and whose process is gone: how that ended, and what is wrong already."""
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
    return controller, outcome, [] if trap.sprung else [f"the fault never came ({outcome})"]


def bereft(stage: Stage, cell: Cell) -> list[str]:
    """The controller is killed and the target's machine dies; then new processes that go back, while it is dead, again,
    and when it has booted by itself. What is wrong, while and after."""
    world = stage.world
    controller, outcome, wrong = _disturbed(stage, cell)
    lose(world, "target")
    before, seen = model_laws.tree(world, "target"), []
    for _ in ("first", "second"):
        if (code := controller.command("rollback")) != 1:
            wrong.append(f"--rollback without its target ended with {code}")
        if model_laws.serving(world) != ["source"]:
            wrong.append(f"without its target clients are answered by {model_laws.serving(world)}")
        if (said := model_laws.state(world, "source")) not in ("open", "none"):
            wrong.append(f"the source says that the migration is {said}")
        if said == "open" and not any("kpro5 is not reached" in line for line in controller.left):
            wrong.append(f"what is left on the target is not said: {controller.left}")
        seen.append((dict(_lasting(model_laws.tree(world, "source"))), controller.left))
    if seen[0] != seen[1]:
        wrong.append(f"the second one differs from the first: {seen}")
    if model_laws.tree(world, "target") != before:
        wrong.append("something happened on a target that is dead")
    world.ends["target"].cut = False
    (world.stage / "cut").unlink()
    world.reboot("target")
    if model_laws.serving(world) != ["source"]:
        wrong.append(f"after the target's boot clients are answered by {model_laws.serving(world)}")
    return _to_the_end(stage, controller, "rollback", outcome, wrong)


def orphaned(stage: Stage, cell: Cell) -> list[str]:
    """The same for a source that is not reached: nothing is done, whoever serves goes on."""
    world = stage.world
    controller, outcome, wrong = _disturbed(stage, cell)
    world.ends["source"].cut = True
    before = [model_laws.tree(world, role, times=True) for role in ROLES], model_laws.serving(world)
    if (code := controller.command("rollback")) != 3 or "kpro6: No route to host" not in controller.said[-1]:
        wrong.append(f"--rollback without its source ended with {code}: {controller.said[-1]}")
    after = [model_laws.tree(world, role, times=True) for role in ROLES], model_laws.serving(world)
    if before != after:
        wrong.append("it did something")
    world.ends["source"].cut = False
    return _to_the_end(stage, controller, "rollback", outcome, wrong)


def lose(world: World, role: Role) -> None:
    """The power of a machine fails: nothing runs there any more, and nobody reaches it."""
    world.end_units(role)
    for place in ("guest", "host"):
        world.run(role, place, "rm -rf /run/*")
    world.ends[role].cut = True
    (world.stage / "cut").touch()


def _lasting(tree: Tree) -> Iterator[tuple[str, str]]:
    return ((path, what) for path, what in tree.items() if not path.startswith("host:lib/kpro/journal/"))


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


def pushed(stage: Stage, step: str) -> list[str]:
    """Interrupted in the middle of this step of the cut-over, and then again at every command of the way back."""
    world = stage.world
    world.back_to(step)
    controller = Controller(world)
    cell = Cell(step, next(fault for fault in FAULTS if fault.name == "interrupted"), "rollback")
    trap = Trap(world, controller, cell, stage.commands[step])

    def before(end: End, script: str) -> None:
        if trap.sprung:
            _push()
        trap.before(end, script)

    controller.told, world.before = trap.told, before
    m, wrong = controller.moving(), ["nothing interrupted it"]
    with ending.listening(controller.said.append):
        try:
            controller.from_step(m, step)
        except KeyboardInterrupt:
            wrong = [m.unserved] if m.unserved else []
    world.before = lambda end, script: None
    controller.let_go()
    if model_laws.serving(world) != ["source"]:
        wrong.append(f"clients are answered by {model_laws.serving(world)}")
    return _to_the_end(stage, controller, "rollback", "interrupted", wrong)


def pushed_back(stage: Stage) -> list[str]:
    """A ``--rollback`` from the very end, interrupted at every command until the source serves."""
    world = stage.world
    world.back_to("end")
    controller, wrong = Controller(world), ["nothing interrupted it"]

    def before(end: End, script: str) -> None:
        if ending.is_held():
            _push()

    world.before = before
    with ending.listening(controller.said.append):
        try:
            controller.command("rollback")
        except KeyboardInterrupt:
            wrong = []
    world.before = lambda end, script: None
    controller.let_go()
    if model_laws.serving(world) != ["source"]:
        wrong.append(f"clients are answered by {model_laws.serving(world)}")
    return _to_the_end(stage, controller, "rollback", "interrupted", wrong)


def _push() -> None:
    """A signal, as the run comes by it: at once, or where what holds it ends."""
    if not ending.is_held():
        raise KeyboardInterrupt
    signal.raise_signal(signal.SIGINT)
