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
ROWS = [line.split("\t") for line in (HERE / "INDEX.tsv").read_text().splitlines()[1:]]


def replay(path: Path, args: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    code = main(["gpus", "--replay", str(path), "--json", *args])
    return code, json.loads(capsys.readouterr().out)


def holds(findings: list[dict[str, Any]], wanted: str) -> bool:
    """``gpu.ecc@gpu1=fail``; the subject ``gpu*`` means every GPU, and at least one."""
    name, _, status = wanted.partition("=")
    identity, _, subject = name.partition("@")
    found = [
        f["status"]
        for f in findings
        if f["id"] == identity and (f["subject"] == subject or (subject == "gpu*" and f["subject"] != "host"))
    ]
    return bool(found) and set(found) <= set(status.split("|"))


@pytest.mark.parametrize(("name", "args", "code", "wanted"), ROWS, ids=[f"{row[0]} {row[1]}" for row in ROWS])
def test_each_recorded_machine_gets_the_verdict_of_the_index(
    name: str, args: str, code: str, wanted: str, capsys: pytest.CaptureFixture[str]
) -> None:
    seen, report = replay(HERE / f"{name}.json", shlex.split(args), capsys)
    assert seen == int(code)
    assert report["evidence"] == "replayed"
    missed = [want for want in wanted.split() if not holds(report["findings"], want)]
    assert missed == []


def test_every_record_is_in_the_index() -> None:
    assert {f"{row[0]}.json" for row in ROWS} == {path.name for path in HERE.glob("*.json")}


def test_a_replay_is_the_same_twice(capsys: pytest.CaptureFixture[str]) -> None:
    path = HERE / "a6000_pair_bridge_and_riser.json"
    assert replay(path, [], capsys) == replay(path, [], capsys)
