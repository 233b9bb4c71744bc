"""How an item of the plan is carried out: what is said while it takes long, and while it is taken back."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import gevent
import pytest

from provision import acts
from provision.plan import Item, Step
from provision.run import carrying
from provision.run.errors import ActFailed

ITEM = Item(Step.DRIVER, "driver.load", "m", "nvidia", "load the driver")
MACHINE: Any = SimpleNamespace(name="m", host_name="m")


class Run:
    """As much of a session as carrying out asks for."""

    id = "r1"

    def __init__(self) -> None:
        self.said: list[str] = []
        self.problems: list[Exception] = []
        self.failed_by: dict[str, Exception] = {}
        self.ended: list[str | None] = []

    def say(self, text: str) -> None:
        self.said.append(text)

    def exchanging(self, machine: Any) -> bool:
        return False

    def begin(self, machine: Any, item: Item) -> None:
        pass

    def end(self, machine: Any, item: Item, error: str | None = None) -> None:
        self.ended.append(error)


def test_what_is_said_during_the_way_back_is_not_that_the_step_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run, said_before = Run(), []

    def fails(*_: Any) -> None:
        gevent.sleep(0.1)
        raise ActFailed("no GPU was bound")

    def takes_back(*_: Any) -> None:
        said_before.extend(run.said)
        gevent.sleep(0.1)

    monkeypatch.setattr(carrying, "TICK_SECONDS", 0.02)
    monkeypatch.setattr(acts, "carry_out", fails)
    monkeypatch.setattr(carrying, "take_back", takes_back)
    host: Any = SimpleNamespace(name="m", connected=True)
    assert carrying.carried(run, MACHINE, ITEM)(None, host) is False  # type: ignore[arg-type]
    during = run.said[len(said_before) :]
    assert [text for text in said_before if text.endswith(" s: load the driver")]
    assert during
    assert all(text.endswith(" s: the way back after: load the driver") for text in during)
    assert run.ended == ["no GPU was bound"]
    count = len(run.said)
    gevent.sleep(0.1)
    assert len(run.said) == count


class Exchanging(Run):
    """A run that stopped guests for another driver."""

    def __init__(self) -> None:
        super().__init__()
        self.exchange = SimpleNamespace(over=lambda machine: setattr(self, "open", False))
        self.open = True
        self.tell_journal = lambda event, **facts: None

    def exchanging(self, machine: Any) -> bool:
        return self.open


@pytest.mark.parametrize("step", [Step.DRIVER, Step.CONTAINER, Step.USER_SPACE, Step.SERVICE])
def test_whatever_fails_while_guests_sleep_takes_the_exchange_back_once(
    monkeypatch: pytest.MonkeyPatch, step: Step
) -> None:
    run, back = Exchanging(), []

    def fails(*_: Any) -> None:
        raise ActFailed("it does not start")

    monkeypatch.setattr(acts, "carry_out", fails)
    monkeypatch.setattr(carrying, "take_back", lambda *words: back.append(words[2]))
    monkeypatch.setattr(carrying, "see_services", lambda *_: back.append("asked"))
    host: Any = SimpleNamespace(name="@guest/m/llm", connected=True)
    item = Item(step, "kind", "@guest/m/llm", "llm", "lead it")
    assert carrying.carried(run, MACHINE, item)(None, host) is False  # type: ignore[arg-type]
    assert back == [Step.DRIVER, "asked"]
    assert carrying.carried(run, MACHINE, item)(None, host) is False  # type: ignore[arg-type]
    assert back == [Step.DRIVER, "asked"]


def test_a_red_gate_or_a_changed_machine_takes_the_exchange_back_too(monkeypatch: pytest.MonkeyPatch) -> None:
    run, back = Exchanging(), []
    monkeypatch.setattr(carrying, "take_back", lambda *words: back.append(words[2]))
    monkeypatch.setattr(carrying, "see_services", lambda *_: back.append("asked"))
    host: Any = SimpleNamespace(name="@guest/m/llm", connected=True)
    command = carrying._fails(run, host, MACHINE, ActFailed("the gate of tiny is red"))  # type: ignore[arg-type]
    assert command.function(None, host) is False
    assert back == [Step.DRIVER, "asked"]
    quiet = Run()
    command = carrying._fails(quiet, host, MACHINE, ActFailed("the gate of tiny is red"))  # type: ignore[arg-type]
    quiet.tell_journal = lambda event, **facts: None  # type: ignore[attr-defined]
    assert command.function(None, host) is False
    assert back == [Step.DRIVER, "asked"], "without an exchange a red gate leaves what is there"
