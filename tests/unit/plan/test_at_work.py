"""While a cut-over is at work a plan tells nobody to start anything: whoever applies it waits, and decides then."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from provision.plan import Plan
from provision.spec import Machine
from provision.stack import beside, under_way
from provision.stack.decide import Shipped, stack_plan
from provision.stack.room import Room
from tests.unit.plan.seen import Seen
from tests.unit.plan.tried import wanted, with_candidate

DOWN = "ActiveState=inactive\nUnitFileState=enabled\n"
TOLD = 'told={"mode": "swap", "run": "r7"}\n'
Look = Callable[[str], Plan]


@pytest.fixture
def plan(
    machine: Machine,
    host: Seen,
    inside: Seen,
    shipped: tuple[Shipped, Shipped],
    monkeypatch: pytest.MonkeyPatch,
) -> Look:
    """A service that is down, whose candidate is to be tried beside it, and has no room there."""
    its = with_candidate(machine, mode="beside")
    own = wanted(its)
    monkeypatch.setattr(beside, "room_for", lambda *_: Room(False, "12.0 GiB are free"))
    inside.remembers(own).cmd("unit-tiny", DOWN).cmd("running-tiny", "", 1)

    def look(state: str) -> Plan:
        inside.cmd(under_way.request("tiny").split(":")[1], state)
        return stack_plan(its, its.guests[0], [own], host.snapshot, inside.snapshot, *shipped)

    return look


def test_its_steps_are_due_once_it_has_ended_and_it_is_not_refused_for_what_the_cut_over_does(
    plan: Look,
) -> None:
    busy = plan(f"ActiveState=active\nphase=gate {'d' * 64}\n{TOLD}")
    kinds = {item.kind for item in busy.items}
    assert {"service.cutover", "service.candidate"} <= kinds
    for item in busy.items:
        assert item.text.startswith("once kpro-cutover-tiny.service has ended, if it is then still due: ")
    assert busy.refusals == ()
    assert any("do not start or stop it by hand" in note for note in busy.notes)


@pytest.mark.parametrize(
    "state", ["ActiveState=inactive\n", f"ActiveState=inactive\nphase=gate {'d' * 64}\n"]
)
def test_where_none_is_at_work_they_are_due_now(plan: Look, state: str) -> None:
    """Also after one that was cut off: the next run puts back what served, and goes on."""
    idle = plan(state)
    assert any(item.text.startswith("start kpro-tiny.service again") for item in idle.items)
    assert not any("once kpro-cutover" in item.text for item in idle.items)
    assert ["there is no room beside" in refusal.seen for refusal in idle.refusals] == [True]


def test_what_is_shown_meanwhile_covers_what_is_due_then(plan: Look) -> None:
    """So that a run that waited is not ended because the machine changed under it."""
    shown = plan(f"ActiveState=active\n{TOLD}")
    assert plan("ActiveState=inactive\n").beyond(shown.ids) == ()
