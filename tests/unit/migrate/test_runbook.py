"""The runbook by itself: which step comes next, what a red one brings about, in which order it goes back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from provision.migrate import beginning, cut, record, runbook, steps
from provision.migrate.moving import Moving
from provision.migrate.standing import Record
from provision.migrate.steps import STEPS, Step
from provision.plan import Refusal
from provision.run.errors import ActFailed, Locked, Refused

RUN = "20261130T120000Z-a1b2c3"
WINDOW = [step.name for step in STEPS if step.window]
BEFORE = [step.name for step in STEPS if not step.window]


@dataclass
class Side:
    """A machine that keeps its state file and nothing else."""

    name: str
    kept: Record | None = None
    gone: bool = False

    @property
    def service(self) -> Any:
        return type("Service", (), {"name": "tiny", "migration": None, "ready_seconds": 60})

    def hold(self) -> None:
        if self.gone:
            raise OSError(f"{self.name} cannot be reached")


@dataclass
class World:
    """What was done, in order, and what a look finds."""

    m: Moving
    did: list[str] = field(default_factory=list)
    holds: set[str] = field(default_factory=set)
    red: set[str] = field(default_factory=set)
    passed: set[str] = field(default_factory=set)
    events: list[tuple[str, str]] = field(default_factory=list)

    def of(self, step: Step) -> Step:
        def does(m: Moving) -> str:
            self.did.append(step.name)
            if step.name in self.red:
                raise ActFailed(f"{step.name} is red")
            return "proven"

        def undo(m: Moving) -> str:
            self.did.append(f"undo {step.name}")
            if f"undo {step.name}" in self.red:
                raise ActFailed("not undone")
            return ""

        return replace(
            step,
            does=does,
            undo=undo,
            holds=lambda m: step.name in self.holds,
            needs=steps.nothing,
            passed=lambda m: step.name in self.passed,
        )


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    source, target = Side("a"), Side("b")
    moving = Moving(
        RUN,
        source,  # type: ignore[arg-type]
        target,  # type: ignore[arg-type]
        lambda line: None,
        lambda event, **facts: made.events.append((str(facts.get("step")), str(facts.get("state")))) or "",  # type: ignore[func-returns-value]
        "somebody@here",
        "a",
        lambda m: [],
    )
    made = World(moving)

    def write(side: Side, given: Record, line: str = "") -> None:
        if side.gone:
            raise OSError("gone")
        side.kept = given

    def back(m: Moving) -> str:
        made.did.append("source serves")
        if "source serves" in made.red:
            raise ActFailed("the source does not start")
        m.back = "serves"
        return ""

    monkeypatch.setattr(record, "write", write)
    monkeypatch.setattr(record, "read", lambda side: side.kept)
    monkeypatch.setattr(record, "keep", lambda side: None)
    monkeypatch.setattr(record, "settle", lambda side: None)
    monkeypatch.setattr(record, "put_back", lambda side: setattr(side, "kept", None))
    monkeypatch.setattr(runbook, "sweep", lambda side, run: None)
    monkeypatch.setattr(beginning, "sweep", lambda side, run: None)
    monkeypatch.setattr(
        record, "unwritten", lambda side, run: made.did.append(f"journal of {side.name} away")
    )
    monkeypatch.setattr(cut, "bring_back", back)
    monkeypatch.setattr(
        cut, "may_bring_back", lambda m: "its guest is stopped" if "guest" in made.red else ""
    )
    monkeypatch.setattr(steps, "STEPS", tuple(made.of(step) for step in STEPS))
    return made


def begun(world: World) -> None:
    beginning.begin(world.m)


def test_all_steps_run_in_order_and_the_source_is_told_last_that_it_was_moved(world: World) -> None:
    begun(world)
    runbook.forward(world.m)
    assert world.did == [step.name for step in STEPS]
    assert [side.kept.state for side in world.m.sides if side.kept] == ["moved", "moved"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", BEFORE)
def test_a_red_step_before_the_drain_stops_there_and_undoes_nothing(world: World, name: str) -> None:
    world.red = {name}
    begun(world)
    with pytest.raises(runbook.StepFailed) as failed:
        runbook.forward(world.m)
    assert (failed.value.step, failed.value.back) == (name, None)
    assert world.did[-1] == name
    assert world.m.source.kept.state == "open"  # type: ignore[union-attr]


@pytest.mark.parametrize("name", WINDOW)
def test_a_red_step_from_the_drain_on_brings_the_source_back_before_anything_else(
    world: World, name: str
) -> None:
    world.red = {name}
    begun(world)
    with pytest.raises(runbook.StepFailed) as failed:
        runbook.forward(world.m)
    assert failed.value.back is True
    after = world.did[world.did.index(name) + 1 :]
    assert after[0] == "source serves"
    # It is looked at once more before the rest is undone.
    undone = [one.removeprefix("undo ") for one in after if one != "source serves"]
    order = [step.name for step in STEPS]
    assert undone == sorted(undone, key=order.index, reverse=True)
    assert set(undone) == set(order[: order.index(name) + 1])
    assert [side.kept for side in world.m.sides] == [None, None]  # type: ignore[attr-defined]


def test_while_the_source_does_not_serve_the_target_is_never_taken_away(world: World) -> None:
    world.red = {"switch", "source serves"}
    begun(world)
    with pytest.raises(runbook.StepFailed) as failed:
        runbook.forward(world.m)
    assert failed.value.back is False
    assert not [one for one in world.did if one.startswith("undo")]
    assert world.m.target.kept.state == "open"  # type: ignore[attr-defined]


def test_what_could_not_be_undone_is_told_and_the_run_stays_open(world: World) -> None:
    begun(world)
    world.red = {"undo copy"}
    left = runbook.rollback(world.m, "watch")
    assert left == ["copy: not undone"]
    assert world.did[-1] == "undo install"
    assert world.m.source.kept.run == RUN  # type: ignore[union-attr]


def test_only_what_began_is_undone(world: World) -> None:
    begun(world)
    assert runbook.rollback(world.m, "configure") == []
    assert world.did == ["undo configure", "undo copy", "undo install"]


def test_a_refusal_leaves_nothing_behind(world: World) -> None:
    world.m.look = lambda m: [Refusal("x", "seen", "why", "next")]
    with pytest.raises(Refused):
        begun(world)
    assert [side.kept for side in world.m.sides] == [None, None]  # type: ignore[attr-defined]
    assert world.did == ["journal of a away", "journal of b away"]


@pytest.mark.parametrize("state", ["open", "moved"])
@pytest.mark.parametrize("role", ["source", "target"])
def test_a_second_migration_is_refused_with_the_run_of_the_first(world: World, state: Any, role: Any) -> None:
    other = replace(_kept(world), run="20261129T000000Z-ffffff", state=state, role=role)
    world.m.target.kept = other  # type: ignore[attr-defined]
    with pytest.raises(Locked, match="20261129T000000Z-ffffff"):
        begun(world)
    assert world.m.source.kept is None  # type: ignore[union-attr]
    assert world.m.target.kept == other  # type: ignore[attr-defined]


def test_a_migration_that_was_closed_keeps_no_other_from_beginning(world: World) -> None:
    world.m.target.kept = replace(_kept(world), run="20261129T000000Z-ffffff", state="finalized")  # type: ignore[attr-defined]
    begun(world)
    assert world.m.target.kept.run == RUN  # type: ignore[attr-defined]


def _kept(world: World) -> Record:
    return world.m.record(world.m.target, "copy")


def _all_up_to(name: str) -> set[str]:
    order = [step.name for step in STEPS]
    return set(order[: order.index(name) + 1])


LASTING = {"install", "copy", "configure", "warm", "drain", "activate", "switch", "stop"}


@pytest.mark.parametrize(
    ("holds", "passed", "first"),
    [
        (set(), set(), "install"),
        ({"install"}, set(), "copy"),
        ({"install", "copy", "configure", "warm"}, set(), "answers"),
        ({"install", "copy", "configure", "warm", "answers"}, set(), "speed"),
        # The drain stands for the proofs before it: a source that is drained is not asked again.
        ({"install", "copy", "configure", "warm", "drain"}, {"drain"}, "delta"),
        # The chain has enabled the unit: that alone proves no last copy.
        ({"install", "copy", "configure", "warm", "drain", "activate"}, {"drain"}, "delta"),
        (LASTING - {"stop"}, {"drain", "switch"}, "watch"),
        # Without traffic of its own a target that generates looks switched before it is.
        (LASTING - {"stop"}, {"drain"}, "delta"),
        # A target that lost its model after the drain copies it again first.
        (LASTING - {"copy", "stop"}, {"drain", "switch"}, "copy"),
    ],
)
def test_a_resumed_run_goes_on_at_the_first_step_whose_proof_does_not_hold(
    world: World, holds: set[str], passed: set[str], first: str
) -> None:
    world.holds, world.passed = holds, passed
    todo = steps.of(world.m)
    assert todo[runbook.first_open(world.m, todo)].name == first


def test_a_run_that_came_to_its_end_and_was_cut_before_it_said_so_does_nothing_again(world: World) -> None:
    begun(world)
    world.holds, world.passed = LASTING, {"drain", "switch", "stop"}
    runbook.forward(world.m, resumed=True)
    assert world.did == []
    assert world.m.source.kept.state == "moved"  # type: ignore[union-attr]


def test_a_step_is_on_both_machines_before_it_acts(world: World) -> None:
    begun(world)
    seen: list[str] = []

    def look(step: Step) -> Callable[[Moving], str]:
        def does(m: Moving) -> str:
            seen.extend(side.kept.step for side in m.sides)  # type: ignore[attr-defined]
            return ""

        return does

    one = replace(STEPS[1], does=look(STEPS[1]), needs=steps.nothing)
    runbook._one(world.m, one)
    assert seen == ["copy", "copy"]


def test_ctrl_c_in_the_cut_over_brings_the_source_back_and_before_it_touches_nothing(world: World) -> None:
    begun(world)
    for name, expected in (("speed", []), ("gate", ["source serves"])):
        step = next(one for one in STEPS if one.name == name)

        def interrupted(m: Moving) -> str:
            raise KeyboardInterrupt

        world.did.clear()
        with pytest.raises(KeyboardInterrupt):
            runbook._one(world.m, replace(step, does=interrupted, needs=steps.nothing))
        assert world.did == expected


def test_a_cold_migration_after_its_switch_has_nothing_to_go_back_to(world: World) -> None:
    begun(world)
    world.m.source = None
    left = runbook.rollback(world.m, "watch")
    assert "nothing to go back to" in left[0]
    assert not world.did
    assert runbook.rollback(world.m, "warm") == []
    assert "source serves" not in world.did


@pytest.mark.parametrize(
    ("red", "reached", "back"),
    [
        ("undo warm", "watch", "serves"),
        ("undo copy", "watch", "serves"),
        # The source never stopped serving.
        ("undo copy", "configure", "serves"),
        ("source serves", "gate", "begun"),
        ("source serves", "drain", "begun"),
    ],
)
def test_a_way_back_that_is_not_whole_says_on_both_machines_whether_the_source_serves(
    world: World, red: str, reached: str, back: str
) -> None:
    begun(world)
    assert [side.kept.back for side in world.m.sides if side.kept] == ["", ""]  # type: ignore[attr-defined]
    world.red = {red}
    assert runbook.rollback(world.m, reached)
    kept = [side.kept for side in world.m.sides]  # type: ignore[attr-defined]
    assert [(one.state, one.back) for one in kept] == [("open", back)] * 2
    # Whoever goes on from there is no longer on the way back.
    world.m.back, world.red = "", set()
    runbook.forward(world.m)
    assert [side.kept.back for side in world.m.sides] == ["", ""]  # type: ignore[attr-defined]


def test_a_service_that_has_moved_stays_so_where_the_source_cannot_be_touched(world: World) -> None:
    begun(world)
    runbook.forward(world.m)
    before = [side.kept for side in world.m.sides]  # type: ignore[attr-defined]
    world.did.clear()
    world.red = {"guest"}
    assert runbook.rollback(world.m, "stop", through=True) == ["its guest is stopped"]
    assert world.did == []
    assert [side.kept for side in world.m.sides] == before  # type: ignore[attr-defined]
    assert [one.state for one in before] == ["moved", "moved"]
    assert world.m.back == ""
    # One that was touched is open: nobody reads that the source is stopped and kept from starting.
    world.red = {"source serves"}
    assert runbook.rollback(world.m, "stop", through=True)
    kept = [side.kept for side in world.m.sides]  # type: ignore[attr-defined]
    assert [(one.state, one.back) for one in kept] == [("open", "begun")] * 2
