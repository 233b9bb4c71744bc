"""The source is given up last of all, and only while somebody else has the service."""

from __future__ import annotations

from typing import Any

import pytest

from provision.migrate import fence, finalize, on_target, record
from provision.migrate.finalize import finalize as give_up
from provision.run.errors import ActFailed
from provision.stack import going_back
from tests.unit.migrate.test_runbook import World, begun, world

__all__ = ["world"]


scripts: list[str] = []
"""What ran in the source's guest."""


@pytest.fixture
def did(world: World, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was done, in order; the target generates, the source is fenced and down."""
    done: list[str] = []
    begun(world)
    monkeypatch.setattr(on_target, "is_warm", lambda m: True)
    monkeypatch.setattr(on_target, "runs", lambda side: False)
    monkeypatch.setattr(fence, "look", lambda side: fence.Standing(world.m.run, True, True, {}))
    monkeypatch.setattr(fence, "take_away", lambda side, run: done.append("fence away"))

    def inside(side: Any, script: str, what: str, timeout: float = 60) -> None:
        done.append(what)
        scripts.append(script)

    scripts.clear()
    monkeypatch.setattr(finalize, "inside", inside)
    monkeypatch.setattr(record, "settle", lambda side: done.append(f"history of {side.name}"))
    for side in world.m.sides:
        names: dict[str, Any] = {
            "name": "tiny",
            "unit": "kpro-tiny.service",
            "found": None,
            "migration": None,
        }
        monkeypatch.setattr(type(side), "service", type("Service", (), names))
    return done


def test_the_fence_goes_last_and_the_source_says_for_good_where_it_went(world: World, did: list[str]) -> None:
    give_up(world.m, remove_models=False)
    assert did == ["disabling its unit", "removing its unit", "fence away", "history of a", "history of b"]
    kept = [(side.kept.role, side.kept.state) for side in world.m.sides]  # type: ignore[attr-defined]
    assert kept == [("source", "finalized"), ("target", "finalized")]


def test_no_profile_that_was_kept_to_go_back_to_stays_with_its_key(world: World, did: list[str]) -> None:
    give_up(world.m, remove_models=False)
    (removal,) = [one.split() for one in scripts if "rm -rf" in one]
    kept = ["/etc/kpro/tiny.env", "/etc/kpro/tiny.key", *going_back.paths("tiny")]
    assert [path for path in kept if path not in removal and path.rpartition("/")[0] not in removal] == []


def test_a_source_is_never_given_up_while_the_target_does_not_generate(
    world: World, did: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_target, "is_warm", lambda m: False)
    with pytest.raises(ActFailed, match="not given up"):
        give_up(world.m, remove_models=True)
    assert did == []
    assert world.m.source.kept.state == "open"  # type: ignore[union-attr]


def test_a_source_that_runs_is_not_given_up(
    world: World, did: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_target, "runs", lambda side: True)
    with pytest.raises(ActFailed, match="runs, or is fenced"):
        give_up(world.m, remove_models=True)
    assert did == []
