"""When a failed step takes back what its run changed, and when it must not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from provision.acts import undo
from provision.plan import Item, Step
from provision.run import back
from provision.run.errors import ActFailed, RebootPending, RunError
from provision.run.exchange import Exchange
from provision.run.session import Session


def item(step: Step, host: str = "m") -> Item:
    return Item(step, "kind", host, "subject", "text")


class Run:
    """As much of a session as the way back asks for."""

    def __init__(self, *changed: Item, lock: bool = True) -> None:
        self.id, self.changed, self.lock = "r1", list(changed), lock
        self.exchange = Exchange()
        self.said: list[str] = []
        self.events: list[str] = []
        self.tell_journal = lambda event, **facts: self.events.append(event)

    def say(self, text: str) -> None:
        self.said.append(text)

    def host(self, name: str) -> str:
        return name

    def new_epoch(self, machine: Any) -> None:
        self.events.append("epoch")

    def check_lock(self, machine: Any) -> None:
        if not self.lock:
            raise RunError("the lock is gone")


MACHINE: Any = SimpleNamespace(name="m", host_name="m")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    seen: list[tuple[Any, ...]] = []

    def call(*words: Any) -> undo.Undone:
        seen.append(words)
        return undo.Undone(True, False, ("all is back",))

    monkeypatch.setattr(undo, "undo", call)
    return seen


@pytest.mark.parametrize("step", [Step.RELEASE, Step.DRIVER, Step.REBOOT, Step.DEVICE_NODES, Step.CONTAINER])
def test_a_failed_step_takes_back_only_its_own_run(step: Step, calls: list[tuple[Any, ...]]) -> None:
    run: Any = Run(item(Step.RELEASE))
    back.take_back(run, MACHINE, step)
    assert calls == [("m", "r1", "r1")]
    assert run.events == ["rollback", "epoch", "rolled back"]
    assert any("all is back" in line for line in run.said)


@pytest.mark.parametrize("step", [Step.USER_SPACE, Step.STACK, Step.GATE, Step.SERVICE])
def test_a_red_gate_and_what_comes_beside_it_leave_the_host(step: Step, calls: list[tuple[Any, ...]]) -> None:
    back.take_back(Run(item(Step.RELEASE)), MACHINE, step)  # type: ignore[arg-type]
    assert calls == []


def test_a_failed_container_step_without_changes_of_the_metal_takes_nothing_back(
    calls: list[tuple[Any, ...]],
) -> None:
    back.take_back(Run(item(Step.CONTAINER), item(Step.RELEASE, "other")), MACHINE, Step.CONTAINER)  # type: ignore[arg-type]
    assert calls == []


def test_nothing_is_taken_back_when_another_run_may_be_at_work(calls: list[tuple[Any, ...]]) -> None:
    run: Any = Run(item(Step.RELEASE), lock=False)
    back.take_back(run, MACHINE, Step.DRIVER)
    assert calls == []
    assert "undo.sh r1" in run.said[-1]


def test_a_way_back_that_fails_is_said_and_raises_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*words: Any) -> None:
        raise ActFailed("the connection broke")

    monkeypatch.setattr(undo, "undo", broken)
    run: Any = Run(item(Step.RELEASE))
    back.take_back(run, MACHINE, Step.DRIVER)
    assert "could not be taken back (the connection broke)" in run.said[-1]


def test_a_pending_reboot_ends_with_10_unless_something_failed() -> None:
    pending, failed = RebootPending("m", ["a reason"], "reboot it"), ActFailed("no")
    code = Session.exit_code.fget  # type: ignore[attr-defined]
    state = SimpleNamespace(failed_hosts={"m"})
    assert code(SimpleNamespace(ended=None, problems=[pending], state=state)) == 10
    assert code(SimpleNamespace(ended=None, problems=[pending, failed], state=state)) == 1
    assert code(SimpleNamespace(ended=None, problems=[], state=SimpleNamespace(failed_hosts=set()))) == 0
    assert code(SimpleNamespace(ended=1, problems=[], state=SimpleNamespace(failed_hosts=set()))) == 1
