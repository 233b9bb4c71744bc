"""Measurements taken on one H200 and on two, bare, in containers and with faults made on purpose, judged again."""

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


SAID = {
    "h200_nvlink_pair": {
        "nccl.transport": "P2P/CUMEM on 2 hops",
        "nccl.busbw": "325.6 GB/s at 1 GiB over 2 GPUs: 0.88 of 370.8 (18 NVLinks x 20.6 GB/s)",
    },
    "h200_nvlink_pair_curve": {
        "nccl.busbw": "343.4 GB/s at 4 GiB over 2 GPUs (8 B in 50 us, 1 MiB 22.7, 16 MiB 213.0, 256 MiB 300.3, "
        "1 GiB 325.9): 0.93 of 370.8"
    },
    "h200_nvlink_pair_rank_killed": {
        "nccl.crash": "rank 1 (gpu1) died (signal 9) in the all-reduce of 8 MiB"
    },
    "h200_nvlink_pair_rank_stopped": {
        "nccl.hang": "rank 1 (gpu1) was stopped in the all-reduce of 2 GiB, did not go on within 8 s and was killed"
    },
    "h200_nvlink_pair_without_p2p": {
        "nccl.transport": "SHM on 2 hops: through host memory, though the driver allows peer access",
        "nccl.busbw": "27.6 GB/s at 1 GiB over 2 GPUs: 0.07 of 370.8",
    },
    "h200_two_nodes_by_hand": {
        "nccl.node": "2 nodes with 2 GPUs came",
        "nccl.transport": "NET/Socket on 2 hops",
        "nccl.busbw": "0.62 of 6.9 (one TCP connection each way on eth0, 4 together 17.85)",
    },
    "h200_two_nodes_by_torchrun": {"nccl.busbw": "0.63 of 7.0 (one TCP connection each way on eth0"},
    "h200_two_nodes_by_torchrun_second": {"nccl.environment": "each node's own: CUDA_VISIBLE_DEVICES"},
}


@pytest.mark.parametrize("name", SAID)
def test_what_two_gpus_did_is_said_in_these_words(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, report = replay("nccl", HERE / f"{name}.json", [], capsys)
    for identity, words in SAID[name].items():
        assert [words in f["message"] for f in report["findings"] if f["id"] == identity] == [True]


@pytest.mark.parametrize(("name", "state"), [("killed", "unproven"), ("stopped", "unproven")])
def test_a_rank_that_ended_from_outside_proves_no_path_broken(
    name: str, state: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _, report = replay("nccl", HERE / f"h200_nvlink_pair_rank_{name}.json", [], capsys)
    assert report["facts"]["p2p"]["state"] == state
    _, well = replay("nccl", HERE / "h200_nvlink_pair.json", [], capsys)
    assert well["facts"]["p2p"]["state"] == "works"
