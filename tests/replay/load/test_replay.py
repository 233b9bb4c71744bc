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
    as_indexed("load", HERE, row, capsys)


def test_every_record_is_in_the_index() -> None:
    assert {row[0] for row in rows(HERE)} == recorded(HERE)


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
    _, report = replay("load", HERE / f"{name}.json", [], capsys)
    (finding,) = [f for f in report["findings"] if f["id"] == identity]
    assert said in finding["message"]
