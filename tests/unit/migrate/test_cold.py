"""A cold migration asks before it begins, before it goes on or back, and once more before requests are led over."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from provision.migrate import (
    cold,
    cut,
    fence,
    files,
    knock,
    led,
    making,
    on_target,
    present,
    run,
    steps,
    unreached,
)
from provision.migrate.asked import Asked
from provision.migrate.dead import Heard, State
from provision.migrate.earlier import Follows
from provision.migrate.ends import Pair
from provision.migrate.moving import Moving
from provision.migrate.traffic.port import Seen
from provision.plan import Refusal
from provision.run.errors import Refused
from provision.spec import HAProxy, Hooks, Migration
from tests.unit.migrate import preflight_pair as pairs
from tests.unit.migrate.traffic.proxy import SPEC

WAYS = {"resume": cold.may_resume, "rollback": cold.may_go_back, "finalize": cold.may_end}
HOOKS = Hooks(drain=("a",), switch=("b",), back=("c",), check=("d",))


@dataclass
class Traffic:
    """``signs`` that the source lives; ``who`` gets the requests."""

    signs: list[Refusal] = field(default_factory=list)
    who: Any = "nobody"

    def lives(self) -> list[Refusal]:
        return self.signs

    def check(self, *, begun: bool = False, cold: bool = False) -> list[Refusal]:
        return self.signs if cold else []

    def state(self) -> Seen:
        return Seen(self.who, f"it says {self.who}")


SIGN = Refusal("migration.traffic", "kpro6 is up", "it answers", "switch it off")


@dataclass
class World:
    """``heard`` of the source; ``said`` to the operator."""

    heard: State = "silent"
    traffic: Traffic | None = None
    spec: HAProxy | Hooks | None = None
    off: bool = False
    begun: list[bool] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    @property
    def pair(self) -> Pair:
        source = pairs.end("source", pairs.machine("kpro6", 6, pairs.service()))
        service = pairs.service(migration=Migration(traffic=self.spec))
        return Pair("run", source, pairs.end("target", pairs.machine("kpro5", 5, service)), cold=True)

    def ask(self, way: str = "begin") -> Asked:
        return Asked("kpro6", "kpro5", None, way, True, "", True, False, False, source_is_off=self.off)

    def moving(self) -> Moving:
        given: Any = self.traffic
        made = Moving(
            "run",
            None,
            self.pair.target,  # type: ignore[arg-type]
            self.said.append,
            lambda event, **facts: "",
            "me@here",
            "kpro6",
            lambda m: [],
            traffic=given,
        )
        made.lives = lambda: cold.lives(self.ask(), self.pair, made)
        return made

    def may(self, way: str) -> None:
        WAYS[way](self.ask(way), self.pair, self.moving())


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()

    def ask(source: object, target: object, there: object, *, begun: bool) -> list[Heard]:
        made.begun.append(begun)
        return [Heard("SSH at kpro6, port 22,", "this controller", made.heard, "so it is")]

    monkeypatch.setattr(knock, "ask", ask)
    return made


@pytest.mark.parametrize("way", WAYS)
def test_a_source_that_answers_keeps_every_cold_way_off(way: str, world: World) -> None:
    world.heard, world.off = "answers", True
    with pytest.raises(Refused, match="it is not dead"):
        world.may(way)
    world.heard = "silent"
    world.may(way)
    assert any("only cut off" in line for line in world.said)
    assert world.begun == [True, True]


@pytest.mark.parametrize("way", WAYS)
def test_a_source_that_could_not_be_asked_keeps_them_off_until_the_operator_gives_his_word(
    way: str, world: World
) -> None:
    world.heard = "unknown"
    with pytest.raises(Refused, match="--source-is-off"):
        world.may(way)
    world.off = True
    world.may(way)
    assert any("your word" in line for line in world.said)


@pytest.mark.parametrize("way", ["resume", "rollback"])
def test_a_source_that_the_proxy_sees_up_keeps_them_off_whatever_the_operator_says(
    way: str, world: World
) -> None:
    world.traffic, world.spec, world.off = Traffic([SIGN]), SPEC, True
    with pytest.raises(Refused, match="kpro6 is up"):
        world.may(way)
    world.traffic = Traffic()
    world.may(way)


def test_all_reasons_of_machines_and_proxy_come_at_once(world: World) -> None:
    world.heard, world.traffic, world.spec = "answers", Traffic([SIGN], "target"), SPEC
    with pytest.raises(Refused) as error:
        world.may("rollback")
    assert len(error.value.refusals) == 3


@pytest.mark.parametrize("spec", [SPEC, HOOKS])
@pytest.mark.parametrize("who", ["target", "unknown"])
def test_a_target_that_may_have_the_clients_is_never_taken_away_while_the_source_is_dead(
    spec: HAProxy | Hooks, who: str, world: World
) -> None:
    world.traffic, world.spec, world.off = Traffic(who=who), spec, True
    with pytest.raises(Refused, match="nobody"):
        world.may("rollback")
    world.may("resume")
    world.traffic.who = "nobody"
    world.may("rollback")


def test_a_proxy_that_died_with_the_source_leads_nobody_and_keeps_no_target_from_being_cleaned(
    world: World,
) -> None:
    world.spec = HAProxy(backend="chat", source="kpro6", target="kpro5", on="source")
    world.traffic = Traffic([SIGN], "unknown")
    world.may("rollback")


def test_a_balancer_that_still_points_at_the_dead_source_keeps_no_target_from_being_cleaned(
    world: World,
) -> None:
    world.spec, world.traffic = HOOKS, Traffic([SIGN], "source")
    world.may("rollback")


def test_requests_are_never_led_to_the_target_when_the_source_came_back_meanwhile(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_target, "is_warm", lambda m: True)
    (switch,) = [step for step in steps.STEPS if step.name == "switch"]
    assert switch.needs is cut.may_switch
    world.heard = "answers"
    assert "two hosts would answer" in cut.may_switch(world.moving())
    world.heard = "silent"
    assert cut.may_switch(world.moving()) == ""
    world.traffic = Traffic([SIGN])
    assert "kpro6 is up" in cut.may_switch(world.moving())


@pytest.mark.parametrize("is_cold", [True, False])
def test_a_cold_migration_is_put_together_with_that_question(is_cold: bool, world: World) -> None:
    target = SimpleNamespace(**vars(world.moving().target), arriving=frozenset())
    source = None if is_cold else SimpleNamespace(**vars(world.pair.source))
    ends: Any = SimpleNamespace(source=source, target=target, belong_to=lambda migrating: None)
    made = making.moving(replace(world.ask(), cold=is_cold), ends, world.pair, lambda m: [], "run")
    assert (made.lives is not None) is is_cold
    if made.lives is not None:
        world.heard = "answers"
        assert "not dead" in made.lives()[0].seen


def test_what_comes_next_of_a_cold_migration_is_cold_too(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    present.interrupted(world.moving(), "kpro6", "kpro5")
    present.back(world.moving(), ["a file"], "kpro6", "kpro5")
    said = capsys.readouterr().err
    assert "provision migrate kpro6 kpro5 --cold --resume, or --rollback" in said
    assert "provision migrate kpro6 kpro5 --cold --rollback" in said
    assert said.count("provision migrate kpro6 kpro5") == said.count("provision migrate kpro6 kpro5 --cold")


def look(world: World, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What the plan shows, with everything else in order."""

    @dataclass(frozen=True)
    class Plain:
        refusals: tuple[Refusal, ...] = ()
        notes: tuple[str, ...] = ("another",)
        follows: Follows = field(default_factory=Follows)

    monkeypatch.setattr(files, "reached", lambda pair, source, target: pair)
    monkeypatch.setattr(run, "preflight", lambda *words, **more: Plain())
    monkeypatch.setattr(run, "starts", lambda ends, pair: None)
    monkeypatch.setattr(present, "shown", lambda shown, quiet: None)
    monkeypatch.setattr(fence, "check", lambda side, run: [])
    monkeypatch.setattr(led, "look", lambda m, traffic, shown: (traffic.check(cold=m.cold), []))
    m = world.moving()
    m.target = SimpleNamespace(plan=lambda phases: None, machine=m.target.machine, service=m.target.service)
    return run._look(world.ask(), SimpleNamespace(), world.pair, m)  # type: ignore[arg-type]


def test_the_plan_of_a_cold_migration_refuses_with_all_reasons_and_says_what_was_asked(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.heard, world.traffic = "answers", Traffic([SIGN])
    assert len(look(world, monkeypatch).refusals) == 2
    world.heard, world.traffic = "silent", Traffic()
    shown = look(world, monkeypatch)
    assert shown.refusals == ()
    assert "SSH at kpro6, port 22," in shown.notes[0]
    assert shown.notes[-1] == "another"
    assert world.begun == [False, False], "before it begins no address of the target is left out"


@pytest.mark.parametrize(
    ("way", "gate"), [("_resume", "may_resume"), ("_rollback", "may_go_back"), ("_finalize", "may_end")]
)
@pytest.mark.parametrize("is_cold", [True, False])
def test_each_cold_way_asks_before_a_machine_is_taken_and_a_warm_one_does_not(
    way: str, gate: str, is_cold: bool, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = "moved" if way == "_finalize" else "open"
    did: list[str] = []

    class Stop(Exception):
        pass

    def hold() -> None:
        did.append("held")
        raise Stop

    def asked(ask: Asked, pair: Pair, m: object) -> None:
        did.append(gate)

    one = SimpleNamespace(state=state, run="r", models_from="", since="", step="warm")
    monkeypatch.setattr(run, "_records", lambda ends: [one])
    monkeypatch.setattr(unreached, "heard", lambda ends: ([one], ""))
    monkeypatch.setattr(unreached, "hold", lambda m, away: m.hold())
    monkeypatch.setattr(run, "moving", lambda *words: SimpleNamespace(hold=hold))
    monkeypatch.setattr(cold, gate, asked)
    with pytest.raises(Stop):
        getattr(run, way)(replace(world.ask(), cold=is_cold), None, world.pair)
    assert did == ([gate] if is_cold else []) + ["held"]
