"""Where clients are led to, held against both ends: in the preflight, and by each step that leads them."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from provision.host.transport import Completed, TransportError
from provision.migrate import cut, led, on_target
from provision.migrate.ends import Role
from provision.migrate.seen import UnitLook
from provision.migrate.standing import Record
from provision.migrate.traffic.hooks import Programs
from provision.migrate.traffic.port import Door, Known, TrafficError
from provision.plan import Refusal
from provision.spec import HAProxy, Hooks, Machine, Migration, Ssh
from tests.unit.migrate.traffic import engines
from tests.unit.migrate.traffic.engines import KEY, Serving, door, serving


@dataclass
class Side(engines.Side):
    machine: Machine = field(default_factory=lambda: Machine(name="kpro5", ssh=Ssh(host="192.0.2.5")))
    guest: Any = field(default_factory=lambda: SimpleNamespace(proxmox=None))
    addresses: str = "192.0.2.5 172.17.0.1 "

    def host(self, script: str, *, stdin: bytes = b"", timeout: float | None = 60) -> Completed:
        return Completed(0, self.addresses.encode(), b"")

    def inside(self, script: str, *, stdin: bytes = b"", timeout: float | None = 60) -> Completed:
        if "hostname -I" in script:
            raise TransportError("its guest is absent")
        return super().inside(script, stdin=stdin, timeout=timeout)


@dataclass
class Traffic:
    """``doors`` by role; ``against``: what its own check says. ``asked``: whose door was asked for."""

    doors: dict[str, Door] = field(default_factory=dict)
    against: list[Refusal] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    known: Known | None = None

    def check(self, *, begun: bool = False, cold: bool = False, known: Known | None = None) -> list[Refusal]:
        self.known = known
        return list(self.against)

    def notes(self, known: Known) -> list[str]:
        return ["a note"]

    def door(self, who: Role, *, led: bool) -> Door | None:
        self.asked.append(who)
        return self.doors.get(who)


def unit(active: str) -> UnitLook:
    return UnitLook("kpro-door-test.service", active, "running", "enabled", 1, "", "")


@dataclass
class World:
    """A source that serves, a target whose service is not there yet, and two doors."""

    stack: ExitStack
    key: Path
    own: Serving = field(default_factory=Serving)
    traffic: Traffic = field(default_factory=Traffic)
    target_unit: str = "inactive"
    records: dict[str, dict[str, Record]] = field(default_factory=dict)
    generates: str | None = None
    cold: bool = False

    def up(self, engine: Serving) -> int:
        return self.stack.enter_context(serving(engine))

    def __post_init__(self) -> None:
        self.port = self.up(self.own)
        self.source, self.target = self.side("kpro6", self.port), self.side("kpro5", self.port)
        self.traffic.doors["source"] = door(self.port)

    def side(self, name: str, port: int) -> Side:
        found = engines.side(port)
        return Side(found.service.model_copy(update={"api_key_file": self.key}), name)

    def moving(self) -> Any:
        source = None if self.cold else self.source
        return SimpleNamespace(
            run="run", source=source, target=self.target, peer="kpro6", cold=self.cold, traffic=self.traffic,
            living=lambda: source, spec=Migration(), window=None, say=lambda line: None,
        )  # fmt: skip

    def look(self) -> tuple[list[Refusal], list[str]]:
        def end(role: str, guest: Any) -> Any:
            return SimpleNamespace(
                machine=SimpleNamespace(migrations=self.records.get(role, {})), guest=guest
            )

        shown: Any = SimpleNamespace(
            source=None if self.cold else end("source", SimpleNamespace(generates=self.generates)),
            target=end("target", SimpleNamespace(unit=unit(self.target_unit))),
            pair=SimpleNamespace(
                source=SimpleNamespace(name="kpro6", service=self.source.service),
                target=SimpleNamespace(name="kpro5", service=self.target.service),
            ),
        )
        return led.look(self.moving(), self.traffic, shown)  # type: ignore[arg-type]


@pytest.fixture
def world(tmp_path: Path) -> Any:
    key = tmp_path / "key"
    key.write_text(f"{KEY}\n")
    key.chmod(0o600)
    with ExitStack() as stack:
        yield World(stack, key)


def test_a_source_that_answers_where_its_clients_are_led_to_is_no_reason(world: World) -> None:
    assert world.look() == ([], ["a note"])
    assert world.traffic.asked == ["source", "target"]


def test_clients_that_are_led_to_something_else_than_the_source_are_a_reason_to_begin_nothing(
    world: World,
) -> None:
    world.traffic.doors["source"] = door(world.up(Serving(made=3)))
    (found,) = world.look()[0]
    assert found.where == "migration.traffic.source"
    assert "is not door-test on kpro6" in found.seen
    assert (found.next_step, "would go on at the source" in found.why) == ("correct it", True)


def test_whoever_answers_where_the_target_is_to_is_refused_before_anything_is_touched(world: World) -> None:
    world.traffic.doors["target"] = door(world.up(Serving(page=False, status=501)))
    (found,) = world.look()[0]
    assert found.where == "migration.traffic.target"
    assert "door-test does not run there yet" in found.seen
    assert found.next_step == "correct it"


def test_a_target_that_serves_already_is_another_rule_s_to_refuse(world: World) -> None:
    world.traffic.doors["target"] = door(world.port)
    world.target_unit = "active"
    assert world.look()[0] == []


@pytest.mark.parametrize("role", ["source", "target"])
def test_a_door_that_cannot_be_asked_is_refused(role: str, world: World) -> None:
    def lost(script: str, stdin: bytes, seconds: float) -> Completed:
        raise TransportError("No route to host")

    world.traffic.doors[role] = replace(door(world.port), way=lost)  # type: ignore[type-var]
    (found,) = world.look()[0]
    assert found.where == f"migration.traffic.{role}"
    assert "No route to host" in found.seen


def test_nobody_is_asked_where_the_names_are_wrong_already_or_the_source_is_known_not_to_generate(
    world: World,
) -> None:
    world.traffic.doors["source"] = door(world.up(Serving(made=3)))
    world.traffic.against = [Refusal("migration.traffic.target", "swapped", "why", "next")]
    assert len(world.look()[0]) == 1
    assert world.traffic.asked == []
    world.traffic.against, world.generates = [], "it says 500"
    assert world.look()[0] == []


def test_a_server_that_haproxy_sees_down_is_not_asked_too(world: World) -> None:
    world.traffic.doors["source"] = replace(door(1), up=False)
    assert world.look()[0] == []


def test_a_dead_source_is_not_asked(world: World) -> None:
    world.cold = True
    world.traffic.doors["source"] = door(1)
    assert world.look()[0] == []
    assert world.traffic.asked == ["target"]


def test_what_machines_say_of_their_addresses_is_known_and_loopback_only_where_haproxy_is(
    world: World,
) -> None:
    world.look()
    assert world.traffic.known is not None
    assert world.traffic.known.addresses["target"] == {"192.0.2.5", "172.17.0.1"}
    there = HAProxy(backend="chat", source="a", target="b", on="target")
    update = {"migration": Migration(traffic=there)}
    world.target.service = world.target.service.model_copy(update=update)
    world.look()
    assert "127.0.0.1" in world.traffic.known.addresses["target"]
    assert "127.0.0.1" not in world.traffic.known.addresses["source"]


@pytest.mark.parametrize(
    ("role", "state", "known"),
    [
        ("source", "moved", True),
        ("source", "finalized", True),
        ("target", "moved", False),
        ("source", "open", False),
    ],
)
def test_a_machine_that_kpro_has_moved_the_service_from_is_known_by_its_state_file(
    role: Any, state: Any, known: bool, world: World
) -> None:
    record = Record("run-1", "door-test", role, "kpro6", "me@desk", "stop", state, "now")
    world.records["target"] = {"door-test": record}
    world.look()
    assert world.traffic.known is not None
    said = "migration run-1 of kpro moved door-test from kpro5 to kpro6"
    assert world.traffic.known.left == ({"target": said} if known else {})


STEPS: dict[str, Any] = {
    "warm": on_target.warm,
    "drain": cut.may_drain,
    "switch": cut.switch,
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("foreign", [False, True])
def test_each_step_that_leads_clients_proves_where_they_come_to(
    step: str, foreign: bool, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.traffic.doors["target"] = door(world.up(Serving(page=False, status=501)) if foreign else world.port)
    monkeypatch.setattr(on_target, "is_warm", lambda m: True)
    monkeypatch.setattr(cut.serving, "generates", lambda side, run: SimpleNamespace(generates=True))
    for name in ("hold", "switch"):
        monkeypatch.setattr(Traffic, name, lambda self: None, raising=False)
    m = world.moving()
    m.target.apply = lambda phases: None  # type: ignore[attr-defined]
    try:
        said = STEPS[step](m)
    except TrafficError as error:
        said = f"FAILED {error}"
    assert ("is not door-test on kpro5" in said) is foreign, said
    assert foreign or step == "drain" or "by its own counters" in said


def hooks(**more: Any) -> Programs:
    commands: Any = dict.fromkeys(("drain", "switch", "back", "check"), ("/bin/true",))
    return Programs(Hooks(**commands, **more), {})


def test_hooks_with_a_probe_are_proven_where_clients_ask_once_requests_go_there(world: World) -> None:
    probe = hooks(probe=f"http://127.0.0.1:{world.port}/")
    assert probe.door("target", led=False) is None, "before the switch somebody else answers there"
    m = world.moving()
    m.traffic = probe
    assert "by its own counters" in led.prove(m, "target", led=True)
    m.traffic = hooks(probe=f"http://127.0.0.1:{world.up(Serving(made=3))}")
    with pytest.raises(TrafficError, match="is not door-test"):
        led.prove(m, "target", led=True)


def test_hooks_without_a_probe_say_what_is_not_proven(world: World) -> None:
    assert hooks().door("target", led=True) is None
    (note,) = hooks().notes(Known({}, {}, {}))
    assert "it is not proven that the very service answers there" in note
    assert hooks(probe="http://lb").notes(Known({}, {}, {})) == []


def test_a_move_that_nobody_leads_has_nothing_to_prove(world: World) -> None:
    m = world.moving()
    m.traffic = None
    assert led.prove(m, "target", led=True) == ""
