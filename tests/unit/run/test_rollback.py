"""The rollback command: what it asks, what it ends with. The machine is a stand-in that answers as undo.sh does."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from provision.acts import confirm, undo
from provision.acts.undo import Look, Undone
from provision.host import keeping
from provision.host.changes import Change
from provision.migrate.ends import Role
from provision.migrate.standing import Record, State
from provision.run import present, rebooting, rollback
from provision.run.errors import ActFailed

CHANGES = (Change("module", "r1", id="nvidia"),)
CLEAN = Look((), ("x is the original already",), False)
DIRTY = Look(("put x back",), (), False)


class Place:
    """One machine and the run over it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.looks: list[Look] = []
        self.ends: list[Undone | ActFailed] = []
        self.did: list[str] = []
        self.told: list[dict[str, Any]] = []
        self.allowed = False
        self.asked: list[str] = []
        self.records: list[Record] = []
        service = SimpleNamespace(name="tiny", unit="kpro-tiny.service")
        guest = SimpleNamespace(id="c1", services=[service])
        machine = SimpleNamespace(name="box", host_name="box", guests=[guest])
        session = SimpleNamespace(
            id="r9",
            problems=[],
            take_lock=lambda machine: self.did.append("lock"),
            check_lock=lambda machine: None,
            rebooted=lambda machine: self.did.append("lock again"),
            host=lambda name: SimpleNamespace(name=name),
            journal=SimpleNamespace(write=lambda event, **facts: json.dumps({"event": event, **facts})),
            ended=None,
            say=lambda text: None,
        )
        self.session = session
        run = SimpleNamespace(session=session, machines=[machine])
        patch = monkeypatch.setattr
        patch(rollback, "connected", lambda *words: _Context(run))
        patch(rollback, "refuse_while_moving", self._unmoved)
        patch(rollback.inventory, "load", lambda *words, **more: SimpleNamespace(machines=()))
        patch(keeping, "changes_on", lambda host: CHANGES)
        patch(keeping, "write_undo", lambda host, changes: self.did.append("write"))
        patch(undo, "look", lambda host, changes: self.looks.pop(0))
        patch(undo, "undo", self._undo)
        patch(rollback.host_journal, "append", lambda host, run, line: self.told.append(json.loads(line)))
        patch(confirm, "disarm", lambda host: self.did.append("disarm"))
        patch(rebooting, "may", lambda *words: self.allowed)
        patch(rollback.reboot, "reboot", lambda *words: self.did.append("reboot"))

    def _unmoved(self, session: Any, machine: Any) -> list[Record]:
        self.asked.append(machine.name)
        return self.records

    def _undo(self, host: Any, owner: str, say: Any = None) -> Undone:
        self.did.append("undo")
        end = self.ends.pop(0)
        if isinstance(end, ActFailed):
            raise end
        return end

    def run(self, yes: bool = True) -> Any:
        return rollback._rollback("box", (), yes, True, False)


class _Context:
    def __init__(self, run: Any) -> None:
        self.run = run

    def __enter__(self) -> Any:
        return self.run

    def __exit__(self, *words: object) -> None:
        pass


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Place:
    return Place(monkeypatch)


def test_nothing_to_put_back_is_0_and_touches_nothing(place: Place) -> None:
    place.looks = [CLEAN]
    assert place.run().exit_code == 0
    assert place.did == ["lock"]
    assert place.asked == ["box"], "a machine whose service is being moved is left alone"


def test_what_somebody_else_changed_is_not_called_clean(place: Place) -> None:
    place.looks = [Look((), ("x was changed by somebody else: left as it is",), True)]
    assert place.run().exit_code == 1


def test_a_rollback_without_a_terminal_or_yes_changes_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollback.sys.stdin, "isatty", lambda: False)
    place.looks = [DIRTY]
    assert place.run(yes=False).exit_code == 2
    assert place.did == ["lock"]
    assert not present.confirmed_back(1, 1, False)


def test_it_is_done_when_a_second_look_finds_nothing(place: Place) -> None:
    place.looks, place.ends = [DIRTY, CLEAN], [Undone(True, False, ())]
    assert place.run().exit_code == 0
    assert place.did == ["lock", "write", "undo", "disarm"]


def test_what_the_script_says_is_not_believed(place: Place) -> None:
    place.looks, place.ends = [DIRTY, DIRTY], [Undone(True, False, ())]
    assert place.run().exit_code == 1


def test_what_waits_for_a_reboot_ends_with_10(place: Place) -> None:
    place.looks, place.ends = [DIRTY, DIRTY], [Undone(True, True, ("x: the next reboot puts it back",))]
    assert place.run().exit_code == 10
    assert "reboot" not in place.did


def test_a_reboot_that_is_allowed_finishes_it(place: Place) -> None:
    place.allowed = True
    place.looks, place.ends = [DIRTY, CLEAN], [Undone(True, True, ()), Undone(True, False, ())]
    assert place.run().exit_code == 0
    assert place.did == ["lock", "write", "undo", "reboot", "lock again", "undo", "disarm"]


def test_a_script_that_failed_or_was_cut_is_1(place: Place) -> None:
    place.looks, place.ends = [DIRTY, DIRTY], [Undone(False, True, ())]
    assert place.run().exit_code == 1
    place.looks, place.ends = [DIRTY], [ActFailed("the connection broke")]
    assert place.run().exit_code == 1


def test_both_journals_tell_what_was_put_back_and_how_it_ended(place: Place) -> None:
    place.looks, place.ends = [DIRTY, CLEAN], [Undone(True, False, ("x is the original again",))]
    assert place.run().exit_code == 0
    assert [event["event"] for event in place.told] == ["rollback", "rolled back"]
    assert place.told[1]["back"] == ["put x back"]
    assert place.session.ended == 0


def test_a_run_that_nobody_could_agree_to_is_told_as_such(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollback.sys.stdin, "isatty", lambda: False)
    place.looks = [DIRTY]
    place.run(yes=False)
    assert place.session.ended == 2


STOP = "stop container c1, which ends kpro-tiny.service, kpro-other.service in it"


@pytest.mark.parametrize(
    ("role", "state", "alone"),
    [("target", "finalized", True), ("source", "finalized", False), ("target", "rolled_back", False)],
)
def test_a_rollback_that_ends_what_serves_says_so_before_anything_else(
    role: Role, state: State, alone: bool, place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    place.records = [Record("r5", "tiny", role, "kpro6", "me", "stop", state, "then")]
    place.looks, place.ends = [Look((STOP,), ("a note",), False), CLEAN], [Undone(True, False, ())]
    answer = rollback._rollback("box", (), True, False, False)
    tiny, other = answer.document["machines"][0]["stops"]
    assert tiny.startswith("tiny serves in container c1, and ends with it")
    assert ("was moved here from kpro6 for good (run r5), and nobody else has it" in tiny) is alone
    assert other == "kpro-other.service runs in container c1, and ends with it"
    said = capsys.readouterr().err
    assert said.index("ENDS  tiny serves") < said.index("a note")


def test_what_serves_in_a_container_and_could_not_be_asked_is_told_too(place: Place) -> None:
    unasked = "stop container c1, and what serves in it could not be asked"
    place.looks, place.ends = [Look((unasked,), (), False), CLEAN], [Undone(True, False, ())]
    (line,) = place.run().document["machines"][0]["stops"]
    assert "could not be asked: whatever does ends with it" in line


def test_a_rollback_that_ends_nothing_says_nothing_of_it(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    place.looks, place.ends = [Look(("stop container c1",), (), False), CLEAN], [Undone(True, False, ())]
    assert rollback._rollback("box", (), True, False, False).document["machines"][0]["stops"] == ()
    assert "ENDS" not in capsys.readouterr().err
