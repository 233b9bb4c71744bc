"""The report lies beside the journal of its run, whole or not at all, and never changes how the run ended."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from checks.bundle.redact import Redactor
from provision.cli import main
from provision.report import entries, write
from provision.run import journal
from provision.run.journal import Journal
from provision.run.session import Session
from provision.testhost.telling import Telling
from tests.unit.report.journals import EARLIER, GUEST, KINDS, RUN, event, raw


def kept(run: str, events: list[dict[str, Any]]) -> Path:
    folder = journal.runs_folder() / run
    folder.mkdir(parents=True)
    (folder / "journal.jsonl").write_bytes(raw(events))
    return folder


def said_of(run: str) -> list[str]:
    said: list[str] = []
    write.tell(run, said.append)
    return said


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_both_files_are_there_for_their_owner_alone_and_one_line_says_where(kind: str) -> None:
    folder = kept(RUN, KINDS[kind]())
    assert said_of(RUN) == [f"report: {folder / 'report.html'}"]
    for name in ("report.html", "report.json"):
        assert (folder / name).stat().st_mode & 0o777 == 0o600
    assert json.loads((folder / "report.json").read_text())["run"] == RUN
    assert sorted(path.name for path in folder.iterdir()) == ["journal.jsonl", "report.html", "report.json"]


def test_made_anew_from_the_same_journal_it_is_the_same() -> None:
    folder = kept(RUN, KINDS["green"]())
    said_of(RUN)
    first = [(folder / name).read_bytes() for name in ("report.html", "report.json")]
    said_of(RUN)
    assert [(folder / name).read_bytes() for name in ("report.html", "report.json")] == first


def test_a_report_that_cannot_be_written_is_said_and_raises_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = kept(RUN, KINDS["green"]())
    (folder / "report.html").mkdir()
    (folder / "report.html" / "x").touch()
    monkeypatch.setattr("checks.files.tempfile.mkstemp", full)
    (line,) = said_of(RUN)
    assert "could not be written" in line
    assert "No space left" in line
    assert not (folder / "report.json").exists()


def full(*_: Any, **__: Any) -> Any:
    raise OSError(28, "No space left on device")


def test_a_report_that_cannot_be_made_is_said_with_the_way_to_the_journal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept(RUN, KINDS["green"]())
    monkeypatch.setattr(write, "page", lambda _: 1 / 0)
    (line,) = said_of(RUN)
    assert "could not be made (ZeroDivisionError" in line
    assert f"provision runs {RUN}" in line


def test_a_run_without_a_journal_is_said() -> None:
    (line,) = said_of(RUN)
    assert "could not be made (FileNotFoundError" in line


def test_before_is_what_the_last_earlier_run_saw_and_never_a_later_one() -> None:
    def gate(verdict: str) -> list[dict[str, Any]]:
        return [event(0, "gate", host=GUEST, service="chat", verdict=verdict), event(1, "end", exit=0)]

    kept("20261128T080000Z-0a0b0c", gate("pass"))
    kept(EARLIER, gate("warn"))
    kept(RUN, gate("fail"))
    kept("20261201T080000Z-0a0b0c", gate("pass"))
    (found,) = write.read(RUN).gates
    assert found.before is not None
    assert (found.before.verdict, found.before.of) == ("warn", f"run {EARLIER}")


def test_the_runs_that_a_demonstration_made_are_read_with_it() -> None:
    inner = "20261130T120003Z-cccccc"
    kept(inner, KINDS["replayed"]())
    kept(
        RUN,
        [
            event(0, "run", reason="demo"),
            event(1, "ran", runs=[inner, "../../etc", RUN]),
            event(2, "end", exit=0),
        ],
    )
    found = write.read(RUN)
    assert found.runs == (inner,)
    assert found.evidence == "replayed"


def command(*words: str) -> Any:
    return CliRunner().invoke(main, ["runs", *words])


def test_the_command_makes_both_files_anew_also_of_a_torn_journal() -> None:
    folder = kept(RUN, KINDS["green"]())
    (folder / "journal.jsonl").write_bytes(raw(KINDS["green"]())[:-60] + b"\n\x00\xff")
    done = command(RUN, "--report")
    assert (done.exit_code, done.output) == (0, f"{folder / 'report.html'}\n")
    assert "TORN JOURNAL" in (folder / "report.html").read_text()
    assert json.loads((folder / "report.json").read_text())["lost"]
    assert command(RUN).exit_code == 0


def test_the_command_writes_the_page_where_it_is_asked_to(tmp_path: Path) -> None:
    kept(RUN, KINDS["green"]())
    done = command(RUN, "--html", str(tmp_path / "page.html"))
    assert (done.exit_code, done.output) == (0, f"{tmp_path / 'page.html'}\n")
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--report",), 2, "for one RUN"),
        ((RUN, "--report", "--json"), 2, "without --json"),
        ((RUN, "--report"), 2, "there is no run"),
        (("../x", "--html", "y"), 2, "there is no run"),
    ],
)
def test_a_command_that_cannot_be_meant_ends_with_usage(words: tuple[str, ...], code: int, said: str) -> None:
    done = command(*words)
    assert (done.exit_code, said in done.output) == (code, True)


def test_a_page_that_cannot_be_written_ends_with_an_error_in_one_line() -> None:
    kept(RUN, KINDS["green"]())
    done = command(RUN, "--html", "/proc/nowhere/page.html")
    assert done.exit_code == 1
    assert done.output.startswith("error: cannot write /proc/nowhere/page.html")


def session(said: list[str], **more: Any) -> Session:
    state: Any = SimpleNamespace(add_callback_handler=lambda _: None, failed_hosts=set())
    return Session(state, reason="apply kpro5", phases=("install",), say=said.append, **more)


def test_a_run_ends_with_its_report_and_says_where_it_is() -> None:
    said: list[str] = []
    run = session(said)
    run.open_journal()
    run.close()
    assert said == [f"report: {journal.runs_folder() / run.id / 'report.html'}"]
    found = json.loads((journal.runs_folder() / run.id / "report.json").read_text())
    assert (found["asked"]["command"], found["outcome"]["exit"]) == ("provision apply kpro5", 0)
    assert "@" in found["asked"]["by"]


@pytest.mark.parametrize("more", [{}, {"report": False}])
def test_what_only_looked_and_what_is_told_elsewhere_writes_no_report(more: dict[str, bool]) -> None:
    said: list[str] = []
    run = session(said, **more)
    if more:
        run.open_journal()
    run.close()
    assert said == []
    assert not (journal.runs_folder() / run.id / "report.html").exists()


def test_a_run_that_failed_has_its_report_too() -> None:
    said: list[str] = []
    run = session(said)
    run.open_journal()
    run.tell_journal("failed", host="kpro5", why="the disk is full")
    run.ended = 130
    run.close()
    found = json.loads((journal.runs_folder() / run.id / "report.json").read_text())
    assert (found["outcome"]["state"], found["outcome"]["why"]) == ("interrupted", ["the disk is full"])


def test_a_demonstration_tells_its_parts_and_only_the_runs_that_it_made() -> None:
    kept(EARLIER, [event(0, "run", reason="apply demo")])
    story = Telling("demo")
    with story.step("make a model") as said:
        said["text"] = "from the cache"
    mine = "20991130T120000Z-cccccc"
    own = Journal(mine)
    own.begin("apply demo")
    own.write("end", exit=1)
    own.close()
    # Of another demonstration of the same user, which runs beside it.
    kept("20991130T120000Z-dddddd", [event(0, "run", reason="apply demo"), event(1, "end", exit=0)])
    with pytest.raises(OSError, match="no driver"), story.step("build the driver"):
        raise OSError("no driver")
    told: list[str] = []
    story.end(1, told.append)
    assert len(told) == 1
    found = json.loads(Path(told[0].removeprefix("report: ")).with_suffix(".json").read_text())
    assert found["runs"] == [mine]
    assert [(one["name"], one["state"]) for one in found["steps"]] == [
        ("make a model", "done"), ("build the driver", "failed"),
    ]  # fmt: skip
    assert (found["outcome"]["state"], found["outcome"]["why"]) == ("failed", ["no driver"])


def test_a_demonstration_goes_on_where_no_journal_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/nowhere")
    story = Telling("demo")
    with story.step("a part"):
        pass
    told: list[str] = []
    story.end(0, told.append)
    assert (told, story.runs) == ([], ())


def test_a_text_that_no_utf_8_holds_is_in_the_journal_as_its_escape() -> None:
    found = Journal(RUN)
    line = found.write("failed", why="half \ud800 of a pair\u2028and a line")
    found.close()
    line.encode()
    (read,) = journal.read(RUN)
    assert read["why"] == "half \ud800 of a pair\u2028and a line"


def test_a_run_that_writes_no_report_imports_no_template_engine() -> None:
    code = "import provision.report.write, provision.run.history, sys; print('jinja2' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize(
    "unit",
    [
        "x",
        "-",
        "a-",
        "a.",
        "\n",
        " ",
        "token",
        "token=[",
        'token="',
        "--token ",
        "serial ",
        "Environment=",
        "a://",
    ],
)
def test_a_long_text_of_one_kind_is_redacted_in_no_time(unit: str) -> None:
    began = time.monotonic()
    Redactor(None).text((unit * entries.LONGEST)[: entries.LONGEST])
    assert time.monotonic() - began < 4
