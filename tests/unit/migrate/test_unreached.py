"""One of the two machines is not reached: what a way back does all the same, what it refuses, and what it says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from provision.migrate import cut, fence, live, on_target, record, runbook, serving, unreached
from provision.migrate.ends import End
from provision.migrate.live import Dead, Live
from provision.migrate.sides import TransportError
from provision.migrate.traffic.port import TrafficError
from provision.run import runner
from provision.run.errors import ActFailed, Away, Locked, Refused, Unreachable
from tests.unit.migrate.model_specs import machine, service
from tests.unit.migrate.test_runbook import RUN, World, begun, world

__all__ = ["world"]

AWAY = "b cannot be reached: no route to host"


def end(role: Any, name: str, folder: Path) -> End:
    spec = machine(role, name, 5, service(role, folder, extra=False))
    return End(role, name, spec, spec.guests[0], spec.guests[0].services[0])


@pytest.fixture
def reached(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Inventory files whose machines answer."""
    names = {"a.py", "b.py"}

    @contextmanager
    def connected(path: Path, *, within: Any, **_: Any) -> Iterator[Any]:
        if path.name not in names:
            raise Unreachable([Away(path.stem, path.stem, "no route to host", f"ssh {path.stem}")])
        yield SimpleNamespace(
            session=SimpleNamespace(of=path.name, within=within, give_back=lambda one: None)
        )

    monkeypatch.setattr(runner, "connected", connected)
    return names


def connect(folder: Path, **how: Any) -> Any:
    paths = (folder / "a.py", folder / "b.py")
    ends = end("source", "a", folder), end("target", "b", folder)
    return live.connected(*ends, paths, "", print, **{"cold": False, "reboot": False, **how})


def test_on_the_way_back_a_target_that_is_not_reached_leaves_the_source_with_its_own_session(
    tmp_path: Path, reached: set[str]
) -> None:
    reached.remove("b.py")
    with connect(tmp_path, back=True) as ends:
        assert isinstance(ends.source, Live)
        assert isinstance(ends.target, Dead)
        assert (ends.session.of, ends.session.within) == ("a.py", None)
        for ask in (ends.target.host, ends.target.inside, ends.target.plan, ends.target.apply):
            with pytest.raises(TransportError, match=r"^b cannot be reached: no route to host$"):
                ask(":")


def test_so_does_a_source_and_without_both_there_is_nobody_to_ask(tmp_path: Path, reached: set[str]) -> None:
    reached.remove("a.py")
    with connect(tmp_path, back=True) as ends:
        assert isinstance(ends.source, Dead)
        assert ends.session.of == "b.py"
    reached.clear()
    with pytest.raises(Unreachable, match=r"(?s)b cannot.*a cannot"), connect(tmp_path, back=True):
        pass


@pytest.mark.parametrize("how", [{}, {"back": True, "cold": True}])
def test_every_other_way_needs_the_target(tmp_path: Path, reached: set[str], how: dict[str, bool]) -> None:
    reached.remove("b.py")
    with pytest.raises(Unreachable), connect(tmp_path, **how):
        pass


def test_without_its_target_the_source_is_brought_back_and_nothing_else_is_tried(world: World) -> None:
    begun(world)
    world.m.note("switch", "begin")
    world.m.target.gone = True  # type: ignore[attr-defined]
    for _ in range(2):
        world.did.clear()
        left = runbook.rollback(world.m, "switch", away=AWAY)
        assert world.did == ["source serves"]
        assert left[0].startswith(f"b is not reached ({AWAY})")
        assert [line.split(": ")[1] for line in left if line.startswith("then, there")] == [
            "switch", "gate", "activate", "verify", "delta", "drain", "speed", "answers", "warm", "configure",
            "copy", "install",
        ]  # fmt: skip
        assert "see that no client asks it there" in left[-1]
        kept = world.m.source.kept  # type: ignore[union-attr]
        assert (kept.state, kept.step, kept.peer) == ("open", "switch", "b")
    world.m.target.gone = False  # type: ignore[attr-defined]
    assert runbook.rollback(world.m, "switch") == []
    assert "undo warm" in world.did


def test_before_the_drain_nothing_is_done_and_what_is_left_is_said(world: World) -> None:
    begun(world)
    left = runbook.rollback(world.m, "configure", away=AWAY)
    assert world.did == []
    assert not any("boot" in line for line in left)
    assert world.m.source.kept.state == "open"  # type: ignore[union-attr]


def test_a_source_that_does_not_come_back_is_said_first(world: World) -> None:
    begun(world)
    world.red = {"source serves"}
    left = runbook.rollback(world.m, "watch", away=AWAY)
    assert left[0] == "drain: the source does not start"
    assert "b is not reached" in left[1]


def test_a_target_that_another_run_holds_stops_the_way_back_and_one_that_is_lost_does_not(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.m.target.gone = True  # type: ignore[attr-defined]
    assert unreached.hold(world.m, "") == "b cannot be reached"
    assert unreached.hold(world.m, AWAY) == AWAY

    def held() -> None:
        raise Locked("somebody else holds b")

    monkeypatch.setattr(world.m.target, "hold", held)
    with pytest.raises(Locked):
        unreached.hold(world.m, "")
    world.m.source.gone = True  # type: ignore[union-attr]
    with pytest.raises(OSError, match="a cannot be reached"):
        unreached.hold(world.m, AWAY)


def test_a_migration_the_other_way_round_is_not_taken_back_as_this_one(world: World) -> None:
    source, target = world.m.source, world.m.target
    ends: Any = SimpleNamespace(source=source, target=target)
    source.kept = replace(  # type: ignore[union-attr]
        world.m.record(target, "stop", "moved"), role="target", peer="b"
    )
    with pytest.raises(ValueError, match=r"from b to a .*not the other way round"):
        unreached.heard(ends)
    source.kept = replace(source.kept, role="source", peer="c")  # type: ignore[union-attr]
    with pytest.raises(ValueError, match=r"from a to c .*not between a and b"):
        unreached.heard(ends)
    source.kept = replace(source.kept, state="finalized")  # type: ignore[union-attr]
    assert [one.state for one in unreached.heard(ends)[0]] == ["finalized"]


class Deaf:
    """Requests cannot be led."""

    def back(self) -> None:
        raise TrafficError("HAProxy on b (/run/haproxy/admin.sock): it could not be asked")


def test_a_source_that_generates_and_gets_no_requests_is_said_to_do_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    did: list[str] = []
    monkeypatch.setattr(fence, "take_away", lambda side, run: did.append("fence away"))
    monkeypatch.setattr(serving, "start", lambda *_: did.append("generates"))
    one = SimpleNamespace(name="a", service=SimpleNamespace(name="tiny", ready_seconds=1))
    m: Any = SimpleNamespace(living=lambda: one, run=RUN, say=print, traffic=Deaf())
    with pytest.raises(
        ActFailed, match="tiny generates on a again, and requests are not led to it: HAProxy on b"
    ):
        cut.bring_back(m)
    assert did == ["fence away", "generates"]
    assert m.back == "begun"
    m.traffic = None
    assert cut.bring_back(m) == "tiny generates on a again"
    assert m.back == "serves"


def test_a_guest_that_is_stopped_keeps_its_fence_and_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    one = SimpleNamespace(name="a", service=SimpleNamespace(name="tiny"))
    m: Any = SimpleNamespace(living=lambda: one, target=SimpleNamespace(name="b"), peer="a")
    monkeypatch.setattr(fence, "look", lambda side: object())
    assert cut.may_bring_back(m) == ""

    def stopped(side: Any) -> None:
        raise ActFailed("a: looking at its unit: llm is stopped")

    monkeypatch.setattr(fence, "look", stopped)
    said = cut.may_bring_back(m)
    assert "llm is stopped; nothing was touched, and b serves as before. Next: start the guest on a" in said


@pytest.mark.parametrize(
    ("step", "state", "said", "cold"),
    [
        ("copy", "open", "the run has not kept a from serving", True),
        ("drain", "open", "a was drained, or about to be", True),
        ("switch", "open", "a was drained, or about to be", False),
        ("stop", "moved", "a was drained, or about to be", False),
    ],
)
def test_without_its_source_nothing_goes_back_and_what_serves_where_is_said(
    world: World, monkeypatch: pytest.MonkeyPatch, step: str, state: Any, said: str, cold: bool
) -> None:
    kept = world.m.record(world.m.target, step, state)

    def read(side: Any) -> Any:
        if side.name == "a":
            raise TransportError("a cannot be reached: no route to host")
        return kept

    monkeypatch.setattr(record, "read", read)
    monkeypatch.setattr(on_target, "runs", lambda side: True)
    ends: Any = SimpleNamespace(source=world.m.source, target=world.m.target)
    with pytest.raises(Refused) as refused:
        unreached.heard(ends)
    text = str(refused.value)
    assert f"a cannot be reached: no route to host; migration {RUN} is {state} at {step}: {said}" in text
    assert "tiny runs on b; who gets the requests is not kpro's to know" in text
    assert ("--rollback --cold" in text) is cold


def test_a_connection_that_is_lost_at_the_very_end_says_that_resume_finishes_it(world: World) -> None:
    begun(world)
    last = steps_done(world)
    with pytest.raises(
        ActFailed, match=r"tiny serves on b: every step is done.*gone. Next: --resume finishes it"
    ):
        runbook._close(world.m)
    assert world.did == last
    world.m.target.gone = False  # type: ignore[attr-defined]
    runbook._close(world.m)
    assert world.m.target.kept.state == "moved"  # type: ignore[attr-defined]


def steps_done(world: World) -> list[str]:
    world.m.target.gone = True  # type: ignore[attr-defined]
    return list(world.did)
