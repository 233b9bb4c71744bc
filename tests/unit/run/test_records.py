"""Journal, history and the sentence about a lock's owner."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from provision.cli import main
from provision.run import lock
from provision.run.errors import RunError
from provision.run.journal import Journal, is_run_id, new_run_id, read


def test_a_run_id_sorts_by_time_and_is_told_from_other_words() -> None:
    assert is_run_id(new_run_id())
    assert is_run_id("20261129T152000Z-a1b2c3")
    assert not is_run_id("../20261129T152000Z-a1b2c3")


def test_events_are_on_disk_at_once_and_a_cut_off_line_is_left_out() -> None:
    journal = Journal("20261129T152000Z-a1b2c3")
    journal.write("begin", kind="container.create")
    journal.close()
    with (journal.folder / "journal.jsonl").open("a") as file:
        file.write('{"event": "do')
    assert [event["event"] for event in read(journal.run)] == ["begin"]


def test_a_journal_that_cannot_be_written_is_said_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/nowhere")
    with pytest.raises(
        RunError, match=r"journal of this run cannot be written in /proc/nowhere.*XDG_STATE_HOME"
    ):
        Journal("20261129T152000Z-a1b2c3")


def test_a_disk_that_fills_up_is_said_too(monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal("20261129T152000Z-a1b2c3")
    journal.close()
    monkeypatch.setattr(journal, "_file", open("/dev/full", "a"))  # noqa: PTH123, SIM115
    with pytest.raises(RunError, match="No space left on device"):
        journal.write("begin", kind="container.create")
    journal.close()


def test_runs_are_listed_with_how_they_ended() -> None:
    for run, code in (("20261129T152000Z-a1b2c3", 0), ("20261129T152001Z-a1b2c3", None)):
        journal = Journal(run)
        journal.write("run", reason="apply box")
        journal.write("done", kind="x")
        if code is not None:
            journal.write("end", exit=code)
        journal.close()
    done = CliRunner().invoke(main, ["runs", "--json"])
    rows = json.loads(done.stdout)["runs"]
    assert [(row["ended"], row["changes"]) for row in rows] == [("exit 0", 1), ("did not end", 1)]
    shown = CliRunner().invoke(main, ["runs", "20261129T152000Z-a1b2c3"])
    assert "reason=apply box" in shown.output


@pytest.mark.parametrize("run", ["nope", "20261129T152009Z-ffffff", "../../etc"])
def test_a_run_that_is_not_there_is_exit_2(run: str) -> None:
    done = CliRunner().invoke(main, ["runs", run])
    assert done.exit_code == 2
    assert "there is no run" in done.output


def test_the_owner_of_a_lock_is_named_in_words() -> None:
    said = lock.describe(lock.Owner.here("20261129T152000Z-a1b2c3", "apply box").line())
    assert "apply box" in said
    assert "pid" in said


@pytest.mark.parametrize("line", ["", "{", "[]", '{"owner": 1}', '{"since": "x", "owner": "a"}'])
def test_an_owner_that_cannot_be_read_is_no_traceback(line: str) -> None:
    assert lock.describe(line) == "a run that has not said its name yet"
