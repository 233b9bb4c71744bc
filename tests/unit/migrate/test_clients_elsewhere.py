"""A way back whose clients cannot be led: the source serves all the same, the target stays, and what to do is said."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from provision.migrate import cut, fence, on_target, present, runbook, serving
from provision.migrate.traffic.hooks import Programs
from provision.migrate.traffic.port import TrafficError
from tests.unit.migrate.test_runbook import World, begun, world
from tests.unit.migrate.traffic.test_program import hooks, write

__all__ = ["hooks", "world", "write"]

BRING_BACK = cut.bring_back
Make = Callable[..., Programs]


@pytest.fixture
def back(
    world: World, hooks: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., list[str]]:
    """A way back with hooks of which some are as they are given; ``gone``: those that are not there. The requests go to
    ``who``."""
    monkeypatch.setattr(cut, "bring_back", BRING_BACK)
    monkeypatch.setattr(fence, "take_away", lambda side, run: world.did.append("fence away"))
    monkeypatch.setattr(serving, "start", lambda *_: world.did.append("source generates"))
    begun(world)

    def go(reached: str, who: str = "target", gone: tuple[str, ...] = (), **bodies: str) -> list[str]:
        world.did.clear()
        made = hooks(**bodies)
        (tmp_path / "state").write_text(f"{who}\n")
        for name in gone:
            (tmp_path / name).unlink()
        ticks = iter(range(10_000))
        world.m.traffic = replace(made, clock=lambda: float(next(ticks)), sleep=lambda seconds: None)
        return runbook.rollback(world.m, reached, through=reached == "stop")

    return go


SERVES = ["fence away", "source generates"]


@pytest.mark.parametrize("reached", ["drain", "watch", "stop"])
@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"gone": ("back",)}, "/back cannot be started: No such file or directory. Next: bring it here"),
        ({"back": "echo no such pool >&2; exit 3"}, "no such pool"),
        ({"back": "exit 0"}, "after 10 s source does not get the requests: check says: target"),
        ({"check": "echo no route; exit 1"}, "ended with 1: it said\n    no route"),
        ({"gone": ("check",)}, "/check cannot be started"),
        ({"gone": ("check", "back")}, "/back cannot be started"),
    ],
)
def test_the_source_serves_and_the_target_is_left_where_requests_were_not_seen_to_go_back(
    world: World, back: Make, capsys: pytest.CaptureFixture[str], reached: str, bad: dict[str, str], said: str
) -> None:
    left = back(reached, **bad)
    assert world.did == SERVES
    (why,) = left  # type: ignore[misc]
    assert "tiny generates on a again, and requests are not led to it: " in why
    assert said in why
    assert why.endswith("; meanwhile lead requests to http://a:1 by hand")
    # The state files say that the way back goes on.
    assert [(side.kept.state, side.kept.back) for side in world.m.sides] == [("open", "begun")] * 2  # type: ignore[attr-defined]
    present.back(world.m, left, "a.py", "b.py")  # type: ignore[arg-type]
    told = capsys.readouterr().err
    assert "CLIENTS MAY BE LED ELSEWHERE: tiny generates on a" in told
    assert "Lead them to a by hand, now" in told
    assert "NOBODY ANSWERS" not in told
    assert "--rollback" in told.splitlines()[-2]
    present.interrupted(world.m, "a.py", "b.py")
    assert "its clients were not led back" in capsys.readouterr().err


@pytest.mark.parametrize("reached", ["drain", "watch", "stop"])
@pytest.mark.parametrize("bad", [{}, {"gone": ("drain", "switch")}, {"gone": ("back",), "who": "source"}])
def test_programs_that_the_way_back_does_without_hold_up_nothing(
    world: World, back: Make, capsys: pytest.CaptureFixture[str], reached: str, bad: dict[str, str]
) -> None:
    left = back(reached, **bad)
    assert left == []
    assert world.did[:3] == [*SERVES, f"undo {reached}"]
    assert "undo warm" in world.did
    present.back(world.m, left, "a.py", "b.py")
    assert "ELSEWHERE" not in capsys.readouterr().err


def test_run_again_it_is_whole_once_clients_were_led_by_hand(world: World, back: Make) -> None:
    assert back("watch", gone=("back",))
    assert world.m.unled
    # The check says so,
    assert back("watch", gone=("back",), who="source") == []
    assert not world.m.unled


def test_or_once_the_inventory_says_that_somebody_else_leads_them(world: World, back: Make) -> None:
    assert back("watch", gone=("back", "check"))
    world.m.traffic = None
    assert runbook.rollback(world.m, "watch") == []
    assert "undo warm" in world.did
    assert not world.m.unled


@pytest.mark.parametrize("reached", ["warm", "speed"])
def test_a_target_that_somebody_else_has_led_clients_to_is_not_taken_away(
    world: World, back: Make, reached: str
) -> None:
    (why,) = back(reached, who="target")  # type: ignore[misc]
    assert "requests of tiny go to b, and this run has not led them there: check says: target" in why
    assert world.did == []
    # Nothing of this run can have led them there: what cannot be told keeps nothing from being taken away.
    for asked in ({"who": "source"}, {"who": "nobody"}, {"check": "exit 1"}, {"gone": ("check",)}):
        assert back(reached, **asked) == []
        assert world.did[-3:] == ["undo configure", "undo copy", "undo install"]
    assert back("configure", who="target") == []


def test_that_who_gets_requests_is_not_known_is_told_once_the_target_is_away(
    hooks: Make, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the run ends with 1 and stays open, whatever else could be undone."""
    with pytest.raises(
        TrafficError, match=r"requests are to stay away from the target, and check .* ended with 1"
    ):
        hooks(check="exit 1").release()
    begun(world)
    did = world.m.target
    monkeypatch.setattr(type(did), "inside", lambda *_, **__: type("Done", (), {"ok": True}), raising=False)
    monkeypatch.setattr(
        type(did), "service", type("S", (), {"name": "tiny", "unit": "kpro-tiny.service", "found": None})
    )
    monkeypatch.setattr(on_target.traces, "of", lambda service: ["/x"])
    monkeypatch.setattr(on_target.traces, "unit_file", lambda service: "/x")
    world.m.traffic = hooks(check="echo down; exit 1")
    with pytest.raises(TrafficError, match="down"):
        on_target.cool(world.m)
