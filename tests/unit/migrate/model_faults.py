"""The faults of the matrix, and every cell of it, made from the list of steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from provision.host.transport import TransportError
from provision.migrate import steps
from tests.unit.migrate.model import End, Killed, World
from tests.unit.migrate.model_move import Chained, Controller
from tests.unit.migrate.model_specs import Role

Way = Literal["resume", "rollback"]
Moment = Literal["begin", "middle", "end", "copied"]
"""``begin``: before the first command after the step is in the controller's journal. ``middle``: before the command in
the middle. ``end``: all is done, and the journal does not say so yet. ``copied``: as soon as a shard is on the target,
however it is called there, and nothing sends any more."""
LAST = "moved"
"""Not in the list of steps: what comes after the last one, when both machines are told."""
NAMES = (*steps.NAMES, LAST)


@dataclass(frozen=True)
class Fault:
    """``strike`` does it, and may raise what the controller sees; ``mend`` is what an operator does about it. ``only``:
    the steps that it can meet, and ``else_why`` why no other."""

    name: str
    moment: Moment
    strike: Callable[[World, Controller], None]
    mend: Callable[[World, Controller], None] = lambda world, controller: None
    only: tuple[str, ...] = NAMES
    else_why: str = ""
    kills: bool = False
    away: tuple[Role, ...] = ()
    """Hosts that the controller does not reach until it is mended."""


def _kill(world: World, controller: Controller) -> None:
    world.dead = True
    raise Killed


def _interrupt(world: World, controller: Controller) -> None:
    raise KeyboardInterrupt


def _cut(role: Role) -> Callable[[World, Controller], None]:
    def strike(world: World, controller: Controller) -> None:
        world.ends[role].cut = True
        (world.stage / "cut").touch()

    return strike


def _mended(world: World, controller: Controller) -> None:
    (world.stage / "cut").unlink(missing_ok=True)
    for end in world.ends.values():
        end.cut = False


def _off(world: World, controller: Controller) -> None:
    world.end_units("source")
    world.run("source", "guest", "rm -rf /run/*")
    world.run("source", "host", "rm -rf /run/*")
    _cut("source")(world, controller)


def _on(world: World, controller: Controller) -> None:
    _mended(world, controller)
    world.reboot("source")


def _reboot(world: World, controller: Controller) -> None:
    world.reboot("target")
    raise TransportError("kpro5: the connection broke")


def _filler(world: World) -> Path:
    return world.at("target", "host", "/srv/filler")


def _fill(world: World, controller: Controller) -> None:
    world.run("target", "host", "cat /dev/zero >/srv/filler")


def _room(world: World, controller: Controller) -> None:
    _filler(world).unlink(missing_ok=True)


def shards(world: World, role: Role) -> list[Path]:
    """The first shard, wherever it lies."""
    name = Path(world.model(role)).name
    models = world.at(role, "host", "/srv/models")
    return [
        p
        for p in (
            models / name / "model-1.safetensors",
            *models.glob(f".incoming/*/{name}/model-1.safetensors"),
        )
        if p.exists()
    ]


def _spoil(role: Role) -> Callable[[World, Controller], None]:
    def strike(world: World, controller: Controller) -> None:
        for path in shards(world, role):
            with path.open("r+b") as file:
                file.write(b"spoiled")

    return strike


def _restore(world: World, controller: Controller) -> None:
    """As it was: all bytes of a shard of the model are one."""
    for path in shards(world, "source"):
        path.write_bytes(path.read_bytes()[-1:] * path.stat().st_size)


def _wrong(world: World, controller: Controller) -> None:
    controller.wrong = True


def _right(world: World, controller: Controller) -> None:
    controller.wrong = False


def _red(world: World, controller: Controller) -> None:
    target = world.ends["target"]
    assert isinstance(target, Chained)
    target.red = True
    (world.stage / "fail-gate").touch()


def _green(world: World, controller: Controller) -> None:
    target = world.ends["target"]
    assert isinstance(target, Chained)
    target.red = False
    (world.stage / "fail-gate").unlink(missing_ok=True)


def _hook(verb: str) -> tuple[Callable[[World, Controller], None], Callable[[World, Controller], None]]:
    def strike(world: World, controller: Controller) -> None:
        (world.stage / f"fail-{verb}").touch()

    def mend(world: World, controller: Controller) -> None:
        (world.stage / f"fail-{verb}").unlink(missing_ok=True)

    return strike, mend


_HAS_SHARD = NAMES[NAMES.index("configure") : NAMES.index("activate")]
FAULTS: tuple[Fault, ...] = (
    Fault("killed-at-begin", "begin", _kill, kills=True),
    Fault("killed-in-the-middle", "middle", _kill, kills=True),
    Fault("killed-before-it-is-written", "end", _kill, kills=True),
    Fault("interrupted", "middle", _interrupt),
    Fault("source-cut", "middle", _cut("source"), _mended, away=("source",)),
    Fault("target-cut", "middle", _cut("target"), _mended, away=("target",)),
    Fault("source-ended", "middle", _off, _on, away=("source",)),
    Fault("target-rebooted", "middle", _reboot),
    Fault("disk-full", "begin", _fill, _room),
    Fault(
        "shard-corrupted",
        "begin",
        _spoil("target"),
        only=_HAS_SHARD,
        else_why="before the copy there is no shard on the target; after `verify` no step reads it again",
    ),
    Fault(
        "shard-corrupted-while-copied",
        "copied",
        _spoil("target"),
        only=("copy",),
        else_why="shard-corrupted is the same for what is copied",
    ),
    Fault(
        "shard-changed",
        "begin",
        _spoil("source"),
        _restore,
        only=_HAS_SHARD,
        else_why="before the copy it is no change; after `verify` the target has what was proven",
    ),
    Fault(
        "shard-changed-while-copied",
        "copied",
        _spoil("source"),
        _restore,
        only=("copy",),
        else_why="shard-changed is the same for what is copied",
    ),
    Fault(
        "wrong-answers", "begin", _wrong, _right, only=("answers",), else_why="they are compared in `answers`"
    ),
    Fault("red-gate", "begin", _red, _green, only=("warm", "gate"), else_why="no other step asks a gate"),
    Fault("hook-drain-fails", "begin", *_hook("drain"), only=("drain",), else_why="`drain` alone runs it"),
    Fault(
        "hook-switch-fails", "begin", *_hook("switch"), only=("switch",), else_why="`switch` alone runs it"
    ),
)


@dataclass(frozen=True)
class Cell:
    step: str
    fault: Fault
    way: Way

    def __str__(self) -> str:
        return f"{self.step}-{self.fault.name}-{self.way}"


def cells() -> Iterator[Cell]:
    for step in NAMES:
        for fault in FAULTS:
            if step in fault.only:
                for way in ("resume", "rollback"):
                    yield Cell(step, fault, way)  # type: ignore[arg-type]


def killed(step: str) -> list[Cell]:
    """A controller that dies in this step, at each of its moments."""
    return [Cell(step, fault, "rollback") for fault in FAULTS if fault.kills]


def left_out() -> dict[tuple[str, str], str]:
    """Steps and faults that have no cell, and why."""
    return {
        (step, fault.name): fault.else_why for fault in FAULTS for step in NAMES if step not in fault.only
    }


@dataclass
class Trap:
    """Strikes once in its cell. ``commands``: how many the controller gives in this step when nothing happens."""

    world: World
    controller: Controller
    cell: Cell
    commands: int
    sprung: bool = False
    _in: bool = False
    _seen: int = 0
    _began: bool = field(default=False)

    def told(self, event: str, facts: dict[str, Any]) -> None:
        if event != "step":
            return
        step, state = facts["step"], facts["state"]
        if (step, state) == (self.cell.step, "done") and self.cell.fault.moment == "end":
            self._strike()
        if ((step, state) == (self.cell.step, "begin") and not self._began) or (
            (step, state) == (steps.NAMES[-1], "done") and self.cell.step == LAST
        ):
            self._began = self._in = True
        elif state in ("begin", "failed"):
            self._in = False

    def before(self, end: End, script: str) -> None:
        if not self._in or self.sprung:
            return
        self._seen += 1
        moment = self.cell.fault.moment
        if moment == "copied":
            busy = list(self.world.at("source", "host", "/run/double").glob("*.pid"))
            due = bool(shards(self.world, "target")) and not busy
        else:
            due = self._seen == (1 if moment == "begin" else self.commands // 2 + 1)
        if due and moment != "end":
            self._strike()

    def _strike(self) -> None:
        self.sprung = True
        self.cell.fault.strike(self.world, self.controller)
