"""Recorded machines through the command line: verdict, exit code and the findings that matter.

The records are composed to the real form; INDEX.tsv says what each must lead to.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from checks.cli import main

HERE = Path(__file__).parent
TWO_A6000 = HERE.parents[2] / "provision" / "testhost" / "records" / "two-a6000.json"
ROWS = [line.split("\t") for line in (HERE / "INDEX.tsv").read_text().splitlines()[1:]]


def replay(path: Path, args: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    code = main(["gpus", "--replay", str(path), "--json", *args])
    return code, json.loads(capsys.readouterr().out)


def holds(findings: list[dict[str, Any]], wanted: str) -> bool:
    """``gpu.ecc@gpu1=fail``; the subject ``gpu*`` means every GPU, and at least one; ``~`` is a space."""
    name, _, status = wanted.partition("=")
    identity, _, subject = name.partition("@")
    found = [
        f["status"]
        for f in findings
        if f["id"] == identity
        and (f["subject"] == subject.replace("~", " ") or (subject == "gpu*" and f["subject"] != "host"))
    ]
    return bool(found) and set(found) <= set(status.split("|"))


@pytest.mark.parametrize(("name", "args", "code", "wanted"), ROWS, ids=[f"{row[0]} {row[1]}" for row in ROWS])
def test_each_recorded_machine_gets_the_verdict_of_the_index(
    name: str, args: str, code: str, wanted: str, capsys: pytest.CaptureFixture[str]
) -> None:
    seen, report = replay(HERE / f"{name}.json", shlex.split(args.replace("{here}", str(HERE))), capsys)
    assert seen == int(code)
    assert report["evidence"] == "replayed"
    missed = [want for want in wanted.split() if not holds(report["findings"], want)]
    assert missed == []


@pytest.mark.parametrize(
    ("name", "subject", "said"),
    [
        ("a6000_pair_not_started", "0000:01:00.0", "did not find valid ROM signature"),
        (
            "a6000_pair_not_started",
            "0000:02:00.0",
            "GPU 0000:02:00.0: RmInitAdapter failed! (0x62:0x25:1792)",
        ),
        ("a6000_pair_not_started_log_closed", "0000:01:00.0", "could not be read: Operation not permitted"),
        ("container_given_the_dead_one", "0000:01:00.0", "RmInitAdapter failed!"),
        ("gpu_without_gsp_refused", "0000:02:00.0", "not supported by open nvidia.ko because it does not"),
    ],
)
def test_a_gpu_that_did_not_start_is_told_in_the_kernel_s_own_words(
    name: str, subject: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _, report = replay(HERE / f"{name}.json", ["--expect", "2"], capsys)
    (finding,) = [
        f for f in report["findings"] if (f["id"], f["subject"]) == ("driver.adapter_init", subject)
    ]
    assert said in finding["message"]
    assert finding["cause"]
    assert finding["fix"]


def test_the_demonstration_s_record_is_green_replayed_and_says_that_it_is_composed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, report = replay(TWO_A6000, ["--expect", "2"], capsys)
    assert code == 0
    assert (report["verdict"], report["evidence"]) == ("pass", "replayed")
    assert report["facts"]["host"].startswith("composed")
    assert report["facts"]["driver"] == "535.261.03"
    assert [gpu["pci"] for gpu in report["facts"]["gpus"]] == ["0000:01:00.0", "0000:02:00.0"]
    assert {gpu["name"] for gpu in report["facts"]["gpus"]} == {"NVIDIA RTX A6000"}
    assert main(["gpus", "--replay", str(TWO_A6000), "--expect", "2"]) == 0
    assert "REPLAYED (pass)" in capsys.readouterr().out
    assert replay(TWO_A6000, ["--expect", "3"], capsys)[0] == 1


def test_every_record_is_in_the_index() -> None:
    assert {f"{row[0]}.json" for row in ROWS} == {path.name for path in HERE.glob("*.json")}


def test_a_replay_is_the_same_twice(capsys: pytest.CaptureFixture[str]) -> None:
    path = HERE / "a6000_pair_bridge_and_riser.json"
    assert replay(path, [], capsys) == replay(path, [], capsys)
