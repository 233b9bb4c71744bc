"""Step ``answers``: the target is held against the source, in their guests, each with its own key."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from provision.migrate import answers
from provision.migrate.judged import Verdict
from tests.unit.migrate.answering import RUN, End

MakeEnd = Callable[..., End]
KEY = "kpro-very-secret-key"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The run's own on the controller."""
    made = tmp_path / "runs" / RUN
    made.mkdir(parents=True)
    return made


def check(source: End | None, target: End, folder: Path, origin: End | None = None) -> Verdict:
    origin = origin or source
    assert origin is not None
    return answers.check(source, origin, target, RUN, folder, lambda text: None)


def test_a_target_that_is_the_same_service_is_green_to_the_last_token(end: MakeEnd, folder: Path) -> None:
    found = check(end("kpro6"), end("kpro5"), folder)
    assert (found.state, found.green, found.facts["exact"]) == ("pass", True, True)
    assert (found.facts["compared"], found.facts["first_token_share"], found.facts["logprob_diff"]) == (
        26,
        1.0,
        0.0,
    )
    assert (found.facts["least_share"], found.facts["tolerance"], found.facts["verdict"]) == (
        0.95,
        0.1,
        "pass",
    )
    assert "26 answers" in found.said


@pytest.mark.parametrize(
    ("fault", "named"),
    [
        ("wrong-answers", "serve.answers_logprobs"),
        ("other-template", "serve.answers_template"),
        ("other-tokenizer", "serve.answers_tokenizer"),
        ("cut-off", "serve.answers"),
        ("health-only", "serve.answers"),
    ],
)
def test_a_target_that_is_another_service_is_red_by_name(
    end: MakeEnd, folder: Path, fault: str, named: str
) -> None:
    found = check(end("kpro6"), end("kpro5", fault=fault), folder)
    assert (found.state, found.green) == ("fail", False)
    assert any(line.startswith(f"fail  {named}:") for line in found.lines)
    assert named in {one["id"] for one in found.facts["findings"]}


def test_other_gpus_need_no_equal_texts_and_it_is_said(end: MakeEnd, folder: Path) -> None:
    found = check(end("kpro6", gpus=("RTX A6000",)), end("kpro5", gpus=("H200",)), folder)
    assert (found.state, found.facts["exact"]) == ("pass", False)
    assert "RTX A6000, here H200" in found.said


def test_the_key_of_each_end_is_its_own_and_stands_nowhere(end: MakeEnd, folder: Path) -> None:
    source, target = end("kpro6", key=KEY), end("kpro5", key=f"{KEY}-two")
    found = check(source, target, folder)
    assert found.state == "pass"
    written = [
        file for root in (source.root, target.root, folder) for file in root.rglob("*") if file.is_file()
    ]
    assert len(written) > 4
    assert not [file for file in written if KEY.encode() in file.read_bytes()]
    assert KEY not in "".join(source.ran + target.ran) + str(found)


def test_what_was_answered_is_kept_for_the_run_and_nobody_else_reads_it(end: MakeEnd, folder: Path) -> None:
    source, target = end("kpro6"), end("kpro5")
    check(source, target, folder)
    kept = folder / "answers-tiny.json"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert json.loads(kept.read_text())["machine"] == "kpro6"
    asked = len(source.ran)
    assert check(source, target, folder).state == "pass"
    assert len(source.ran) == asked


def test_a_source_that_does_not_answer_is_unknown_with_its_reason(end: MakeEnd, folder: Path) -> None:
    found = check(end("kpro6", fault="health-only"), end("kpro5"), folder)
    assert (found.state, found.green) == ("unknown", False)
    assert "500" in found.said
    assert not list(folder.iterdir())


def test_a_lost_connection_to_either_end_is_unknown(end: MakeEnd, folder: Path) -> None:
    source, target = end("kpro6"), end("kpro5")
    source.down = True
    assert check(source, target, folder).state == "unknown"
    source.down, target.down = False, True
    found = check(source, target, folder)
    assert (found.state, "connection" in found.said) == ("unknown", True)


def test_a_target_that_is_not_there_is_unknown(end: MakeEnd, folder: Path) -> None:
    found = check(end("kpro6"), end("kpro5", alone=True), folder)
    assert (found.state, found.green) == ("unknown", False)


def test_without_a_source_and_without_kept_answers_nothing_is_compared_and_it_is_said(
    end: MakeEnd, folder: Path
) -> None:
    found = check(None, end("kpro5"), folder, origin=end("kpro6", alone=True))
    assert (found.state, found.green, found.facts["compared"]) == ("skip", True, 0)
    assert "kpro6 is not there" in found.said


def test_without_a_source_the_answers_of_an_earlier_run_are_held_against_the_target(
    end: MakeEnd, folder: Path
) -> None:
    source = end("kpro6")
    earlier = folder.parent / "20261129T120000Z-ffffff"
    earlier.mkdir()
    check(source, end("kpro5"), earlier)
    assert check(None, end("kpro4"), folder, origin=source).state == "pass"
    found = check(None, end("kpro3", fault="wrong-answers"), folder, origin=source)
    assert found.state == "fail"


def test_answers_of_another_machine_or_damaged_ones_are_not_taken_for_the_sources(
    end: MakeEnd, folder: Path
) -> None:
    source, target = end("kpro6"), end("kpro5")
    earlier = folder.parent / "20261129T120000Z-ffffff"
    earlier.mkdir()
    check(source, target, earlier)
    kept = earlier / "answers-tiny.json"
    assert check(None, target, folder, origin=end("kpro7", alone=True)).state == "skip"
    whole = kept.read_text()
    kept.write_text(whole[:-100])
    assert check(None, target, folder, origin=source).state == "skip"
    data = json.loads(whole)
    data["answers"]["items"].pop()
    kept.write_text(json.dumps(data))
    found = check(None, target, folder, origin=source)
    assert (found.state, "damaged" in found.said) == ("unknown", True)


def test_a_service_may_have_limits_of_its_own_and_they_are_told(end: MakeEnd, folder: Path) -> None:
    loose = {"answers_logprob": 50.0, "answers_first_token": 1e-6}
    found = check(end("kpro6"), end("kpro5", fault="wrong-answers", thresholds=loose), folder)
    assert not any("answers_logprobs" in line for line in found.lines)
    assert (found.facts["tolerance"], found.facts["least_share"]) == (50.0, 1e-6)


@pytest.mark.parametrize(
    ("verdict", "code", "state"),
    [
        ("pass", 0, "pass"),
        ("pass", 3, "unknown"),
        ("fail", 0, "unknown"),
        ("fail", 1, "fail"),
        ("unknown", 3, "unknown"),
    ],
)
def test_a_report_counts_with_its_exit_code_only(end: MakeEnd, verdict: str, code: int, state: str) -> None:
    service = end("kpro5", alone=True).service
    assert answers.judge({"verdict": verdict, "code": code, "findings": []}, (), service).state == state
