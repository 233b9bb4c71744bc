"""Measurements taken on one H200, bare, in a container and with faults made on purpose, judged again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.replay.rows import as_indexed, names, recorded, replay, rows

HERE = Path(__file__).parent


@pytest.mark.parametrize("row", rows(HERE), ids=names(HERE))
def test_each_record_gets_the_verdict_and_every_finding_of_the_index(
    row: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    as_indexed("nccl", HERE, row, capsys)


def test_every_record_is_in_the_index() -> None:
    assert {row[0] for row in rows(HERE)} == recorded(HERE)


def test_a_gpu_that_another_process_holds_is_not_measured_and_the_process_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, report = replay("nccl", HERE / "h200_held_by_another.json", [], capsys)
    (finding,) = [f for f in report["findings"] if f["id"] == "nccl.gpus"]
    assert "gpu0: process 2476 python3" in finding["message"]


def test_without_the_uvm_node_the_runtime_names_the_driver_s_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, report = replay("nccl", HERE / "h200_in_lxc_without_uvm.json", [], capsys)
    assert any("cuInit gave CUDA_ERROR_UNKNOWN" in f["message"] for f in report["findings"])
