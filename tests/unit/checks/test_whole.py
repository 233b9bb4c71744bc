"""``provcheck all``: one report of every part, in which nothing that a part said is lost; reports read back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks import child, whole
from checks.child import Ended
from checks.cli import COMMANDS
from checks.errors import BadInput
from checks.group import LazyGroup
from checks.model import Finding, Report, Silence, Status
from checks.report import read, render
from checks.whole import Part

PASS, WARN, FAIL, SKIP, UNKNOWN = Status.PASS, Status.WARN, Status.FAIL, Status.SKIP, Status.UNKNOWN
GPUS = Part(("gpus",), 5.0)


def printed(report: Report) -> bytes:
    return render(report, "json").encode()


def found(status: Status, identity: str = "gpu.ecc", command: str = "gpus") -> Report:
    return Report(command, (Finding(identity, status, "gpu0", "said", value=1),), facts={"host": "box"})


def answering(*reports: Report) -> Report:
    """The joined report of parts that printed these."""
    pairs = []
    for report in reports:
        part = Part((report.command,), 5.0)
        ended = Ended(printed(report), "", report.exit_code())
        pairs.append((part, whole.run_part(part, lambda *_, ended=ended: ended)))
    return whole.joined(pairs)


def test_the_worst_part_is_the_verdict_and_each_finding_keeps_its_command() -> None:
    report = answering(found(PASS), found(FAIL, "load.h2d", "load"), found(PASS, "nccl.sum", "nccl"))
    assert report.verdict is FAIL
    assert [finding.command for finding in report.findings] == ["gpus", "load", "nccl"]
    assert (report.facts["load"]["verdict"], report.facts["host"]) == ("fail", "box")
    assert answering(found(PASS), found(PASS, "load.h2d", "load")).verdict is PASS


@pytest.mark.parametrize(
    ("ended", "said"),
    [
        (Ended(b"", "Traceback\nValueError: x", 1), "ValueError: x"),
        (Ended(b"", "", -11), "exit code -11"),
        (Ended(b"", "provcheck: no such command 'load'", 2), "no such command"),
        (Ended(printed(found(PASS))[:-40], "", 0), "not JSON"),
        (Ended(printed(found(PASS)), "", None, timed_out=True), "no answer within 5 s"),
        (Ended(printed(found(PASS)), "", 2), "exit code 2"),
        (Ended(printed(Report("gpus", ())), "", 3), "it found nothing"),
        (Ended(b"{}", "", 0), "schema"),
    ],
)
def test_a_part_without_a_report_is_unknown_and_not_lost(ended: Ended, said: str) -> None:
    report = whole.joined([(GPUS, whole.run_part(GPUS, lambda *_: ended)), (GPUS, found(PASS))])
    assert report.verdict is UNKNOWN
    first = report.findings[0]
    assert (first.id, first.command) == ("node.part", "gpus")
    assert said in first.message
    assert report.exit_code() == 3


def test_a_part_that_cannot_be_started_is_unknown() -> None:
    def gone(*_: object) -> Ended:
        raise FileNotFoundError(2, "No such file or directory")

    assert whole.run_part(GPUS, gone).verdict is UNKNOWN


def test_passive_loads_nothing_and_sends_nothing() -> None:
    assert [part.args for part in whole.parts("http://x", 2, True)] == [
        ("gpus", "--expect", "2"),
        ("serve", "http://x", "--passive"),
    ]
    active = [part.args[0] for part in whole.parts("http://x", None, False)]
    assert active == ["gpus", "load", "nccl", "serve"]
    assert [part.args[0] for part in whole.parts(None, 0, False)] == ["gpus"], "no GPU is wanted"


def test_the_engine_is_named_to_the_parts_that_need_it() -> None:
    by = {part.args[0]: part.args for part in whole.parts("http://x", None, False, unit="kpro-chat.service")}
    assert by["nccl"] == ("nccl", "--unit", "kpro-chat.service")
    assert by["serve"] == ("serve", "http://x", "--unit", "kpro-chat.service")
    assert whole.parts(None, None, False, env="/e")[2].args == ("nccl", "--env", "/e")


@pytest.mark.parametrize("words", [part.args for part in whole.parts("http://x", 2, False, unit="u")])
def test_each_part_is_a_command_line_that_provcheck_takes(words: tuple[str, ...]) -> None:
    group = LazyGroup(name="provcheck", table=COMMANDS)
    command = group.get_command(click.Context(group), words[0])
    assert command is not None
    command.make_context(words[0], list(words[1:]))


def test_all_of_a_machine_without_gpus_passes_when_none_is_wanted(provcheck: Callable[..., Any]) -> None:
    said = provcheck("all", "--expect", 0, "--json")
    assert (said.code, said.report["command"], said.report["verdict"]) == (0, "all", "pass")
    assert {finding["command"] for finding in said.report["findings"]} == {"gpus"}
    assert "gpus ..." in said.err


def test_an_address_that_is_none_is_refused(provcheck: Callable[..., Any]) -> None:
    assert provcheck("all", "kpro5").code == 2


def test_a_part_that_is_given_up_may_take_its_children_along(tmp_path: Path) -> None:
    left = tmp_path / "pid"
    code = (
        "import subprocess, sys, time\n"
        "p = subprocess.Popen(['sleep', '60'], start_new_session=True)\n"
        f"open({str(left)!r}, 'w').write(str(p.pid))\n"
        "try:\n    time.sleep(60)\nfinally:\n    p.kill(); p.wait()\n"
    )
    start = time.monotonic()
    ended = child.run([sys.executable, "-c", code], 1.5, grace=5.0)
    assert ended.timed_out
    assert time.monotonic() - start < 6
    with pytest.raises(ProcessLookupError):
        os.kill(int(left.read_text()), 0)


def test_a_part_that_ignores_the_interrupt_is_killed(tmp_path: Path) -> None:
    code = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(60)"
    start = time.monotonic()
    assert child.run([sys.executable, "-c", code], 0.5, grace=0.5).timed_out
    assert time.monotonic() - start < 4


# ---------------------------------------------------------------- reports read back


def test_the_plan_of_the_gpus_goes_to_the_part_that_judges_it(
    monkeypatch: pytest.MonkeyPatch, provcheck: Callable[..., Any]
) -> None:
    ran: list[tuple[str, ...]] = []

    def seen(part: whole.Part, _: object) -> Report:
        ran.append(part.args)
        return Report(part.args[0], (Finding("gpu.count", Status.PASS, "host", "m"),))

    monkeypatch.setattr(whole, "run_part", seen)
    plan = ("--needs", "70", "--mig", "--compute-mode", "default", "--leave-out", "gpu.xid,gpu.ecc")
    assert provcheck("all", "--passive", "--expect", 8, *plan).code == 0
    words = ("--needs", "70", "--mig", "--compute-mode", "default", "--leave-out", "gpu.ecc,gpu.xid")
    assert ran == [("gpus", "--expect", "8", *words)]
    there: list[list[str]] = []
    monkeypatch.setattr(
        "checks.remote.asked", lambda _, words, __: there.append(list(words)) or seen(ran_part, 0)
    )
    provcheck("all", "--passive", "--host", "box", *plan)
    assert there[0][1 : 1 + len(words)] == list(words)


ran_part = whole.Part(("gpus",), 1.0)
SILENCED = Finding("gpu.ecc", FAIL, "gpu0", "m", silence=Silence("ops", "known", "2027-01-01"))


@pytest.mark.parametrize(
    "report",
    [found(status) for status in Status] + [Report("gpus", (SILENCED,), "replayed"), Report("gpus", ())],
)
def test_a_report_reads_back_as_it_was(report: Report) -> None:
    assert read.parse(printed(report), "box") == report


def test_a_number_that_json_has_not_is_printed_as_null() -> None:
    report = Report("gpus", (Finding("gpu.ecc", PASS, "gpu0", "m", value=float("nan")),))
    assert read.parse(printed(report), "box").findings[0].value is None
    assert json.loads(render(report, "jsonl").splitlines()[0])["value"] is None


def changed(**parts: Any) -> bytes:
    return json.dumps({**json.loads(printed(found(FAIL))), **parts}).encode()


def first(**parts: Any) -> bytes:
    data = json.loads(printed(found(FAIL)))
    data["findings"][0].update(parts)
    return json.dumps(data).encode()


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "not JSON"),
        (b"Welcome to box\n" + printed(found(PASS)), "not JSON"),
        (b"[]", "not a JSON object"),
        (b"\xff{}", "not UTF-8"),
        (changed(schema="provcheck/2"), "schema"),
        (changed(verdict="pass"), "over findings that make 'fail'"),
        (changed(findings={}), "findings must be a list"),
        (changed(findings=[1]), "finding 1: not an object"),
        (changed(evidence="dreamt"), "evidence"),
        (changed(command="rm -rf"), "command"),
        (changed(facts=[]), "facts"),
        (first(status="fine"), "no such status"),
        (first(status=["fail"]), "no such status"),
        (first(id="../x"), "id is"),
        (first(subject=None), "subject is missing"),
        (first(message=7), "message must be a text"),
        (first(message="x" * 30_000), "message must be a text"),
        (first(silence="yes"), "silence must be an object"),
        (first(silence={"owner": "me"}), "reason is missing"),
        (b" " * (read.SIZE_LIMIT + 1), "more than 8 MiB"),
        (b'{"a":' * 5000, "box"),
    ],
)
def test_what_is_no_report_is_refused_with_the_reason(raw: bytes, said: str) -> None:
    with pytest.raises(BadInput, match="box") as caught:
        read.parse(raw, "box")
    assert said in str(caught.value)


@given(st.binary(max_size=200), st.integers(0, 2000))
def test_damage_of_any_kind_ends_as_bad_input_or_as_a_report(noise: bytes, at: int) -> None:
    whole_one = printed(found(FAIL))
    at %= len(whole_one)
    try:
        assert isinstance(read.parse(whole_one[:at] + noise + whole_one[at + len(noise) :], "box"), Report)
    except BadInput:
        return


def test_reading_a_report_needs_no_click() -> None:
    code = "import sys; from checks.report import read; assert not {'click', 'rich'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
