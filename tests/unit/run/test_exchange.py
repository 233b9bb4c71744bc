"""From when to when an exchange of the driver is under way, in one run and over a run that was cut."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from checks.snapshot import Snapshot
from provision.acts import undo
from provision.host.swap import STOP, UNDER_WAY, unfinished
from provision.plan import Item, Step
from provision.run import back
from provision.run.exchange import Exchange
from tests.unit.plan.seen import Seen
from tests.unit.run.test_back import Run

MACHINE: Any = SimpleNamespace(
    name="m",
    host_name="m",
    guests=[SimpleNamespace(name="llm")],
    guest_host_name=lambda guest: f"@guest/m/{guest.name}",
)
STOPPED = Item(Step.DRIVER, STOP, "m", "llm", "stop it")
LOADED = Item(Step.DRIVER, "driver.load", "m", "nvidia", "load it")


def left(text: str | None) -> Snapshot:
    return Seen().put("file", UNDER_WAY, text).snapshot


def test_it_is_under_way_from_the_first_stop_until_it_is_over() -> None:
    exchange = Exchange()
    assert not exchange.under_way(MACHINE, [LOADED])
    assert exchange.under_way(MACHINE, [STOPPED])
    exchange.over(MACHINE)
    assert not exchange.under_way(MACHINE, [STOPPED])


def test_a_run_that_goes_on_where_another_was_cut_has_to_end_it_as_well() -> None:
    exchange = Exchange()
    exchange.saw(MACHINE, left("r1\n"))
    assert exchange.earlier(MACHINE) == ("r1",)
    assert not exchange.under_way(MACHINE, []), "a run that touched nothing takes nothing back"
    assert exchange.under_way(MACHINE, [LOADED])


def test_what_runs_left_is_told_newest_first_and_nothing_is_nothing() -> None:
    assert unfinished(left("r1\nr2\nr1\n")) == ("r1", "r2")
    assert unfinished(left(None)) == unfinished(Seen().snapshot) == ()


def test_a_guest_that_this_run_stopped_is_as_it_was_seen_before() -> None:
    exchange, inside = Exchange(), Seen().snapshot
    exchange.stops(MACHINE, LOADED, {"llm": inside})
    assert exchange.inside("@guest/m/llm") is None
    exchange.stops(MACHINE, STOPPED, {"llm": inside})
    assert exchange.inside("@guest/m/llm") is inside


@pytest.mark.parametrize("whole", [True, False])
def test_the_way_back_goes_through_the_run_that_was_cut(monkeypatch: pytest.MonkeyPatch, whole: bool) -> None:
    run, undone = Run(LOADED), []
    run.exchange.saw(MACHINE, left("r0\n"))

    def call(host: str, owner: str, which: str) -> undo.Undone:
        undone.append(which)
        return undo.Undone(whole, False, (which,))

    monkeypatch.setattr(undo, "undo", call)
    back.take_back(run, MACHINE, Step.DRIVER)  # type: ignore[arg-type]
    assert undone == (["r1", "r0"] if whole else ["r1"])
