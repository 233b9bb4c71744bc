"""What a migration's journal is told for the report: how a copy gets on, both sides of the gate."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from provision.host._wire import Completed
from provision.migrate import on_files, on_target, proofs
from provision.migrate.copy.copying import Copy
from provision.migrate.copy.model import CopySettings, Progress
from provision.run.errors import ActFailed
from provision.spec import Guest, Migration

GIB = 1 << 30
GUEST = Guest(name="llm", backend="lxc", id="c1")


class Copying:
    """As much of a copy as is heard; ``breaks``: it ends with an error after its looks."""

    route = "direct"
    heard: Any = None

    def __init__(self, looks: list[int], breaks: bool = False) -> None:
        self.looks, self.breaks = looks, breaks

    def wait(self, say: Any) -> None:
        for done in self.looks:
            self.heard(Progress(done * GIB, 4 * GIB, 1e9, 3.0, "copying"))
        if self.breaks:
            raise ActFailed("the disk is full")

    def prepare(self) -> None: ...
    def start(self) -> None: ...
    def retake(self, before: Any) -> bool:
        return False

    def place(self) -> None: ...
    def verify(self, *, final: bool = False) -> list[str]:
        return []


def moving(copying: Any = None, **more: Any) -> tuple[Any, list[tuple[str, dict[str, Any]]]]:
    told: list[tuple[str, dict[str, Any]]] = []
    facts: dict[str, Any] = {
        "copy": copying,
        "peer": "a",
        "target": SimpleNamespace(name="b"),
        "spec": Migration(),
    }
    m = SimpleNamespace(
        **facts | more, say=lambda _: None, tell=lambda event, **facts: told.append((event, facts))
    )
    return m, told


def test_a_copy_is_told_in_samples_and_by_what_it_came_to(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 10.0, 10.0, 12.0, 30.0, 30.0, 31.0])
    monkeypatch.setattr(on_files.time, "monotonic", lambda: next(clock))
    m, told = moving(copying := Copying([1, 2, 4]))
    on_files.copy(m)
    assert [(event, facts.get("bytes_done", facts.get("bytes"))) for event, facts in told] == [
        ("progress", GIB), ("progress", 4 * GIB), ("copied", 4 * GIB),
    ]  # fmt: skip
    assert told[-1][1] == {"step": "copy", "bytes": 4 * GIB, "seconds": 31.0, "route": "direct"}
    assert copying.heard is None


def test_a_copy_that_broke_is_not_told_as_one_that_was_made() -> None:
    m, told = moving(copying := Copying([1], breaks=True))
    with pytest.raises(ActFailed):
        on_files.copy(m)
    assert [event for event, _ in told] == ["progress"]
    assert copying.heard is None


def test_every_look_at_a_copy_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = [Progress(1, 2, None, None, "copying"), Progress(2, 2, None, None, "done")]
    copying = Copy.__new__(Copy)
    copying.settings = CopySettings("b")
    heard: list[Progress] = []
    copying.heard = heard.append
    monkeypatch.setattr(Copy, "progress", lambda self: looks[len(heard)])
    monkeypatch.setattr("provision.migrate.copy.copying.time.sleep", lambda _: None)
    assert copying.wait(lambda _: None) == looks[1]
    assert heard == looks


def side(verdict: str, rc: int, name: str, asked: list[str]) -> Any:
    red = {"status": "fail", "id": "gpu.ecc", "subject": "gpu0", "message": "3 errors"}
    document = {
        "schema": "provcheck/1",
        "verdict": verdict,
        "evidence": "live",
        "findings": [red] if rc else [],
    }

    def inside(script: str, **_: Any) -> Completed:
        asked.append(script)
        return Completed(rc, json.dumps(document).encode(), b"")

    service = SimpleNamespace(name="tiny", unit="kpro-tiny.service", replay=None, silences=())
    return SimpleNamespace(name=name, guest=GUEST, service=service, inside=inside)


def test_the_last_gate_of_the_target_is_in_the_journal_also_when_it_is_red(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    life = SimpleNamespace(generates=True, why="")
    monkeypatch.setattr(on_target.serving, "generates", lambda *_: life)
    for verdict, rc in (("pass", 0), ("fail", 1)):
        m, told = moving(target=side(verdict, rc, "b", []), run="r")
        if rc:
            with pytest.raises(ActFailed, match=r"gpu\.ecc gpu0: 3 errors"):
                on_target.gate(m)
        else:
            on_target.gate(m)
        ((event, facts),) = told
        assert (event, facts["side"], facts["verdict"], facts["host"]) == (
            "gate",
            "target",
            verdict,
            "@guest/b/llm",
        )
        assert len(facts["findings"]) == (1 if rc else 0)


@pytest.mark.parametrize("rc", [0, 1])
def test_the_gate_of_the_source_is_told_and_decides_nothing(monkeypatch: pytest.MonkeyPatch, rc: int) -> None:
    monkeypatch.setattr(proofs, "runs", lambda _: True)
    asked: list[str] = []
    m, told = moving(source=side("fail" if rc else "pass", rc, "a", asked), target=None)
    proofs._source_gate(m)
    ((event, facts),) = told
    assert (event, facts["side"], facts["verdict"]) == ("gate", "source", "fail" if rc else "pass")
    assert "gpus --expect 0 --gate" in asked[0]


def test_a_source_that_is_gone_or_not_kept_by_kpro_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proofs, "runs", lambda _: True)
    asked: list[str] = []
    theirs = side("pass", 0, "a", asked)
    theirs.guest = GUEST.model_copy(update={"managed": False})
    for source in (None, theirs):
        m, told = moving(source=source, target=None)
        proofs._source_gate(m)
        assert told == []
    assert asked == []


def test_a_source_that_cannot_be_asked_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proofs, "runs", lambda _: True)
    gone = side("pass", 0, "a", [])

    def lost(*_: Any, **__: Any) -> Completed:
        raise ConnectionError("the way is gone")

    gone.inside = lost
    m, told = moving(source=gone, target=None)
    proofs._source_gate(m)
    assert told == []
