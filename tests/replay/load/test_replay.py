"""Measurements taken on one H200, bare, in a container and with faults made on purpose, judged again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from checks.cli import main
from tests.replay.rows import all_of, names, rows

HERE = Path(__file__).parent


def replay(path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    code = main(["load", "--replay", str(path), "--json"])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(("name", "args", "code", "wanted"), rows(HERE), ids=names(HERE))
def test_each_record_gets_the_verdict_and_every_finding_of_the_index(
    name: str, args: str, code: str, wanted: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert args == ""
    seen, report = replay(HERE / f"{name}.json", capsys)
    assert seen == int(code)
    assert report["evidence"] == "replayed"
    assert all_of(report["findings"]) == set(wanted.split())


def test_every_record_is_in_the_index() -> None:
    assert {f"{row[0]}.json" for row in rows(HERE)} == {path.name for path in HERE.glob("*.json")}


@pytest.mark.parametrize(
    ("name", "identity", "said"),
    [
        ("h200_in_lxc_without_uvm", "load.start", "cuInit gave 999 CUDA_ERROR_UNKNOWN"),
        ("h200_in_lxc_with_library_of_535", "load.busy", "version mismatch"),
        ("h200_held_by_another", "load.busy", "process 2476 python3"),
        ("h200_in_lxc_held_from_outside", "load.busy", "21362 MiB held by a process that cannot be seen"),
    ],
)
def test_what_kept_it_from_measuring_is_named(
    name: str, identity: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _, report = replay(HERE / f"{name}.json", capsys)
    (finding,) = [f for f in report["findings"] if f["id"] == identity]
    assert said in finding["message"]
