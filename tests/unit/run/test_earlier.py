"""An interrupted cut-over: what is said when it is left alone, and what the next run says when it has ended."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from checks.snapshot import Snapshot
from provision.plan import Item, Step
from provision.planner import Observed
from provision.run import earlier, host_journal, trying
from provision.run.tried import Tried
from provision.stack.cutover import Cutover, Mode
from provision.stack.trials import Trial
from tests.unit.plan.seen import Seen
from tests.unit.run.test_trying import GUEST, MACHINE, OWN
from tests.unit.status.test_cut_over import DIGEST

WORK = (
    f'ActiveState=active\nphase=trial {DIGEST}\ntold={{"mode": "swap", "run": "r7", "digest": "{DIGEST}"}}\n'
)
COMMAND = "units-cutover-tiny"


def look(command: str, verdict: Trial | None = None) -> Observed:
    inside: Snapshot = (
        Seen().remembers(OWN, verdict.dump().decode() if verdict else None).cmd(COMMAND, command).snapshot
    )
    return Observed(Seen().snapshot, {GUEST.name: inside})


def told(
    monkeypatch: pytest.MonkeyPatch, before: Observed | None, after: Observed
) -> tuple[list[str], list[str]]:
    said: list[str] = []
    kept: list[str] = []
    monkeypatch.setattr(host_journal, "append", lambda host, run, line: kept.append(line))
    session: Any = SimpleNamespace(
        id="r8",
        say=said.append,
        wanted=lambda machine: SimpleNamespace(services={GUEST.name: [OWN]}),
        observed=lambda machine: after,
        journal=SimpleNamespace(write=lambda event, **facts: f"{event} {facts['text']}"),
        host=lambda name: None,
    )
    earlier.tell(session, MACHINE, before)
    return said, kept


def test_the_next_run_says_what_came_of_the_one_that_it_waited_for_and_the_machine_keeps_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    over = look("ActiveState=inactive\n", Trial(DIGEST, "refused", why="too slow", mode="swap", run="r7"))
    said, kept = told(monkeypatch, look(WORK), over)
    assert len(said) == len(kept) == 1
    assert "that run r7 began has ended: the candidate was refused (swap): too slow" in said[0]
    assert kept[0].startswith("earlier the cut-over of kpro-tiny.service")


def test_nothing_is_said_where_none_was_at_work_or_it_still_is(monkeypatch: pytest.MonkeyPatch) -> None:
    over = look("ActiveState=inactive\n", Trial(DIGEST, "accepted", run="r7"))
    assert told(monkeypatch, None, over) == ([], [])
    assert told(monkeypatch, over, over) == ([], [])
    assert told(monkeypatch, look(WORK), look(WORK)) == ([], [])


@pytest.mark.parametrize(
    ("mode", "said"),
    [("swap", "It is down meanwhile; do not start it by hand"), ("beside", "It serves meanwhile")],
)
def test_an_interrupted_run_says_of_its_cut_over_that_it_goes_on_and_what_serves(
    monkeypatch: pytest.MonkeyPatch, mode: Mode, said: str
) -> None:
    session: Any = SimpleNamespace(id="r8", tried=Tried())
    item = Item(Step.SERVICE, "service.cutover", "c", "tiny", "swap it", Cutover(OWN, None, mode))

    def interrupted(state: Any, host: Any) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(trying, "carried", lambda *_: interrupted)
    with pytest.raises(KeyboardInterrupt):
        trying.tried(session, MACHINE, item)(SimpleNamespace(), SimpleNamespace())  # type: ignore[arg-type]
    (line,) = session.tried.left_alone()
    assert said in line
    assert "provision status" in line
    assert "tail -f /run/kpro-cutover/tiny/log" in line


def test_one_that_came_to_its_end_is_not_called_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    session: Any = SimpleNamespace(id="r8", tried=Tried())
    monkeypatch.setattr(trying, "carried", lambda *_: lambda state, host: False)
    monkeypatch.setattr(trying, "outcome", lambda *_: None)
    monkeypatch.setattr(trying, "_tell", lambda *_: None)
    item = Item(Step.SERVICE, "service.cutover", "c", "tiny", "swap it", Cutover(OWN, None, "swap"))
    trying.tried(session, MACHINE, item)(SimpleNamespace(), SimpleNamespace())  # type: ignore[arg-type]
    assert session.tried.left_alone() == []
