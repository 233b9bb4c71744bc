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
    code = main(["nccl", "--replay", str(path), "--json"])
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


def test_a_gpu_that_another_process_holds_is_not_measured_and_the_process_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, report = replay(HERE / "h200_held_by_another.json", capsys)
    (finding,) = [f for f in report["findings"] if f["id"] == "nccl.gpus"]
    assert "gpu0: process 2476 python3" in finding["message"]


def test_without_the_uvm_node_the_runtime_names_the_driver_s_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, report = replay(HERE / "h200_in_lxc_without_uvm.json", capsys)
    assert any("cuInit gave CUDA_ERROR_UNKNOWN" in f["message"] for f in report["findings"])
