"""How the demonstration ends when a part does not: with its own code, and the reason alone when nothing booted."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from provision.data import demo
from provision.run.journal import Journal, new_run_id, now, runs_folder
from provision.testhost import demo_vm
from provision.testhost.telling import Telling
from provision.testhost.vm.errors import TestHostBusy, TestHostError


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_vm.demo_files, "prepare", lambda folder: None)
    monkeypatch.setattr(demo_vm, "_image", lambda: SimpleNamespace(kernel="6.1.0-50-amd64"))
    monkeypatch.setattr(demo_vm, "_driver", lambda kernel: 0)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (TestHostBusy("a test host runs already (somebody, pid 7)"), 4),
        (TestHostError("it does not boot"), 1),
        (OSError("no space left"), 1),
        (KeyboardInterrupt(), 130),
    ],
)
def test_a_host_that_does_not_come_up_ends_it_with_the_reason_and_no_report(
    built: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    code: int,
) -> None:
    def fails(*words: object, **more: Any) -> None:
        raise error

    monkeypatch.setattr(demo_vm, "VirtualHost", fails)
    assert demo_vm.run(None, keep=False) == code
    said = capsys.readouterr().err
    assert (str(error) or "interrupted") in said
    assert "not shown" not in said


def test_a_driver_that_is_not_built_ends_it_with_the_builders_code(
    built: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo_vm, "_driver", lambda kernel: 3)
    assert demo_vm.run(None, keep=False) == 3
    assert "the driver could not be built" in capsys.readouterr().err


def test_the_file_of_a_killed_demonstration_is_forgotten_and_that_of_one_that_answers_is_not(
    tmp_path: Path,
) -> None:
    for name in ("id", "known_hosts"):
        (tmp_path / name).touch()
    path = demo.folder(demo.HOST_FILE)
    path.parent.mkdir(parents=True, exist_ok=True)
    with socket.socket() as up:
        up.bind(("127.0.0.1", 0))
        up.listen()
        port = up.getsockname()[1]
        state = {"host": "127.0.0.1", "port": port, "key": str(tmp_path / "id")}
        state["known_hosts"] = str(tmp_path / "known_hosts")
        path.write_text(json.dumps(state))
        demo_vm._forget_the_dead()
        assert path.exists()
    demo_vm._forget_the_dead()
    assert not path.exists()
    path.write_text("{cut")
    demo_vm._forget_the_dead()
    assert not path.exists()


def _beside() -> None:
    """A run of another process of this user, which is newer than any of the demonstration's."""
    folder = runs_folder() / "20991130T120000Z-dddddd"
    folder.mkdir(parents=True)
    events: list[dict[str, Any]] = [
        {"event": "run", "reason": "apply demo_quick"},
        {"event": "done", "item": "somebody's"},
        {"event": "gate", "verdict": "fail", "evidence": "live"},
        {"event": "answered", "text": "somebody else's"},
    ]
    lines = [json.dumps({"at": now(), "run": folder.name, **event}) for event in events]
    (folder / "journal.jsonl").write_text("\n".join(lines) + "\n")


class Applies:
    """The commands of a controller whose apply writes a journal, unless it comes to none."""

    def __init__(self, *told: tuple[str, dict[str, Any]]) -> None:
        self.told = told

    def apply(self, *_: Any) -> int:
        if self.told:
            journal = Journal(new_run_id())
            journal.begin("apply demo")
            for event, facts in self.told:
                journal.write(event, **facts)
            journal.close()
        return 0


@pytest.fixture
def telling() -> Iterator[Callable[[], Telling]]:
    made: list[Telling] = []

    def make() -> Telling:
        made.append(Telling("demo"))
        return made[-1]

    yield make
    for one in made:
        one.end(0, lambda _: None)


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(demo_vm, "_honest", lambda host: None)
    return SimpleNamespace(ssh=lambda *_, **__: SimpleNamespace(stdout=""))


def test_what_is_claimed_is_of_the_demonstrations_own_run_whatever_runs_beside_it(
    host: Any, telling: Callable[[], Telling]
) -> None:
    _beside()
    whole = Applies(("gate", {"verdict": "pass", "evidence": "replayed"}), ("answered", {"text": "tick"}))
    story = demo_vm.Story(whole, telling())
    demo_vm._applied(story, host)
    demo_vm._again(story)
    assert (str(story.seen.gate), story.seen.answer) == ("REPLAYED (pass)", "tick")
    assert story.seen.second_run_changes == 0
    changing = demo_vm.Story(Applies(("done", {}), ("done", {})), telling())
    demo_vm._again(changing)
    assert changing.seen.second_run_changes == 2


def test_a_run_that_has_no_journal_shows_nothing_not_even_that_nothing_changed(
    host: Any, telling: Callable[[], Telling]
) -> None:
    _beside()
    story = demo_vm.Story(Applies(), telling())
    demo_vm._applied(story, host)
    demo_vm._again(story)
    assert (story.seen.gate, story.seen.answer, story.seen.second_run_changes) == (None, None, None)
