"""What the controller brings along for an engine."""

from __future__ import annotations

from typing import Any

import pytest

from provision.run import wanted
from provision.spec import Candidate, Engine, Guest, Machine, Model, Service

BUILT = Engine(kind="standin", version="1.0.0")
LIES_THERE = Engine(
    kind="standin", version="1.0.0", source="tree", interpreter="/usr/bin/python3", folders=["/opt/tree"]
)


def machine(engine: Engine, tried: Engine | None = None) -> Machine:
    service = Service(
        name="chat",
        engine=engine,
        model=Model(repo="some/model", revision="a" * 40),
        candidate=tried and Candidate(engine=tried, profile="plain"),
    )
    return Machine(
        name="box", managed=False, guests=[Guest(name="llm", backend="lxc", id="llm", services=[service])]
    )


@pytest.fixture
def no_uv(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: Any) -> None:
        raise ModuleNotFoundError("uv")

    monkeypatch.setattr(wanted, "_uv", missing)


@pytest.mark.usefixtures("no_uv")
def test_an_engine_that_lies_in_the_guest_needs_no_uv_on_the_controller() -> None:
    assert wanted.wanted_for(machine(LIES_THERE)).uv is None


@pytest.mark.usefixtures("no_uv")
@pytest.mark.parametrize(("engine", "tried"), [(BUILT, None), (BUILT, LIES_THERE), (LIES_THERE, BUILT)])
def test_one_that_is_built_needs_it_the_candidates_too(engine: Engine, tried: Engine | None) -> None:
    with pytest.raises(ModuleNotFoundError):
        wanted.wanted_for(machine(engine, tried))
