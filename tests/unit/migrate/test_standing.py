"""What a machine says of a migration keeps everything else away from the service, and from nothing but the service."""

from __future__ import annotations

from dataclasses import asdict
from types import SimpleNamespace
from typing import Any

import pytest

from provision.migrate import silence, standing, steps
from provision.migrate.standing import Record
from provision.run import rollback_service
from provision.run.errors import Refused
from provision.spec import Engine, Guest, Machine, Model, Service
from tests.unit.plan.seen import Seen

RUN = "20261130T120000Z-a1b2c3"
_SERVICES = [
    Service(
        name=name,
        engine=Engine(kind="standin", version="1.0.0"),
        model=Model(repo="kpro/tiny", revision="1" * 40),
        port=port,
    )
    for name, port in (("chat", 8000), ("code", 8001))
]
BOX = Machine(name="kpro6", guests=[Guest(name="llm", backend="lxc", id="c1", services=_SERVICES)])


def of(state: str, role: str = "source", service: str = "chat") -> str:
    return Record(RUN, service, role, "kpro5", "me", "drain", state, "then").dump().decode()  # type: ignore[arg-type]


def reasons(record: str | None, fenced: str = "", own: str = "", name: str = "chat") -> list[str]:
    """``fenced``: "marker", "drop-in" or both, of chat."""
    host, guest = Seen(), Seen()
    for one in _SERVICES:
        host.put("file", standing.path(one.name), record if one.name == "chat" else None)
        here = fenced if one.name == "chat" else ""
        guest.put("file", standing.fence(one.name), "{}" if "marker" in here else None)
        drop_ins = "kpro-migrated.conf\n" if "drop-in" in here else ""
        guest.put("dir", f"/etc/systemd/system/{one.unit}.d", drop_ins + "override.conf\n")
    found = standing.of_service(BOX, host.snapshot, {"llm": guest.snapshot}, own, name)
    return [str(one) for one in found]


def test_a_service_that_never_moved_is_free() -> None:
    assert reasons(None) == []
    assert reasons(of("rolled_back")) == []
    assert reasons(of("moved", role="target")) == []


@pytest.mark.parametrize(
    ("record", "fenced", "said"),
    [
        (of("open"), "", "--resume, or --rollback"),
        (of("open", role="target"), "", "is open since then, at step drain"),
        (of("moved"), "", "was moved to kpro5"),
        (of("moved"), "marker drop-in", "was moved to kpro5"),
        (of("rolled_back"), "marker drop-in", "lie in the guest: chat was moved"),
        (of("moved", role="target"), "drop-in", "kpro-migrated.conf lies in the guest"),
        (of("finalized"), "", "for good"),
        (None, "marker", "lies in the guest: chat was moved"),
        (None, "drop-in", "kpro-migrated.conf lies in the guest"),
        ("{torn", "", "cannot be read"),
    ],
)
def test_a_service_that_moves_or_moved_is_left_alone_and_its_neighbour_is_not(
    record: str | None, fenced: str, said: str
) -> None:
    (found,) = reasons(record, fenced)
    assert said in found
    assert reasons(record, fenced, name="code") == []


def test_the_migration_itself_may_go_on() -> None:
    assert reasons(of("open"), own=RUN) == []
    assert reasons(of("open"), "marker drop-in", own=RUN) == []
    (found,) = reasons(of("open", role="target"), "marker", own=RUN)
    assert "lies in the guest" in found
    assert reasons(of("open"), own="another") != []


def test_a_profile_is_not_brought_back_where_its_service_has_moved_away() -> None:
    host, guest = Seen(), Seen()
    for one in _SERVICES:
        host.put("file", standing.path(one.name), of("moved") if one.name == "chat" else None)
        guest.put("file", standing.fence(one.name), None)
        guest.put("dir", f"/etc/systemd/system/{one.unit}.d", None)
    seen = SimpleNamespace(host=host.snapshot, guests={"llm": guest.snapshot})
    session: Any = SimpleNamespace(
        take_lock=lambda machine: None,
        observed=lambda machine: seen,
        migrating=SimpleNamespace(run=""),
        wanted=lambda machine: SimpleNamespace(services={"llm": ()}),
    )
    with pytest.raises(Refused, match="was moved to kpro5"):
        rollback_service._look(session, BOX, "chat")


def _open_at(step: str, **more: Any) -> Record:
    return Record(RUN, "chat", "source", "kpro5", "me", step, "open", "then", **more)


@pytest.mark.parametrize("step", silence.SILENT)
def test_a_cut_over_that_was_left_alone_says_first_that_nobody_answers(step: str) -> None:
    record = _open_at(step)
    assert standing.told(asdict(record)).startswith("NOBODY ANSWERS for chat now: migration ")
    (found,) = reasons(record.dump().decode())
    assert "NOBODY ANSWERS for chat now: migration " in found


@pytest.mark.parametrize("step", ["drain", "switch"])
def test_a_step_that_may_have_led_requests_away_or_not_says_that(step: str) -> None:
    assert silence.unanswered(asdict(_open_at(step))).startswith("NOBODY MAY ANSWER for chat")


@pytest.mark.parametrize(
    "record",
    [
        *(_open_at(step) for step in ("copy", "warm", "speed", "watch", "stop")),
        _open_at("delta", back="serves"),
        _open_at("delta", back="paused"),
        _open_at("verify", cold=True),
        Record(RUN, "chat", "source", "kpro5", "me", "gate", "moved", "then"),
    ],
)
def test_where_somebody_answers_nobody_is_frightened(record: Record) -> None:
    assert silence.unanswered(asdict(record)) == ""
    assert standing.told(asdict(record)).startswith("migration ")


def test_the_steps_of_which_it_is_said_are_those_between_drain_and_switch() -> None:
    names = steps.NAMES
    assert names[names.index("drain") + 1 : names.index("switch")] == silence.SILENT


@pytest.mark.parametrize(
    ("back", "ways"),
    [
        ("", "a b --resume, or --rollback"),
        ("paused", "a b --resume, or --rollback"),
        ("serves", "a b --rollback"),
        ("begun", "a b --rollback"),
    ],
)
def test_everybody_who_names_the_next_command_names_the_same(back: Any, ways: str) -> None:
    record = standing.parse(_open_at("gate", back=back, words=("a", "b")).dump().decode())
    assert record.back == back
    assert standing.told(asdict(record)).endswith(f": provision migrate {ways}")
    (found,) = reasons(record.dump().decode())
    assert f"provision migrate {ways}" in found
