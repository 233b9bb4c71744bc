"""Recorded machines through the command line: verdict, exit code and the findings that matter.

h200_bare, h200_in_lxc... and h200_held... were taken on one H200, its identity replaced; the others are composed to the
real form. INDEX.tsv says what each must lead to.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from checks.cli import main
from tests.replay.rows import holds, names, replay, rows

HERE = Path(__file__).parent
TWO_A6000 = HERE.parents[2] / "provision" / "testhost" / "records" / "two-a6000.json"
ROWS = rows(HERE)


@pytest.mark.parametrize(("name", "args", "code", "wanted"), ROWS, ids=names(HERE))
def test_each_recorded_machine_gets_the_verdict_of_the_index(
    name: str, args: str, code: str, wanted: str, capsys: pytest.CaptureFixture[str]
) -> None:
    seen, report = replay(
        "gpus", HERE / f"{name}.json", shlex.split(args.replace("{here}", str(HERE))), capsys
    )
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
    _, report = replay("gpus", HERE / f"{name}.json", ["--expect", "2"], capsys)
    (finding,) = [
        f for f in report["findings"] if (f["id"], f["subject"]) == ("driver.adapter_init", subject)
    ]
    assert said in finding["message"]
    assert finding["cause"]
    assert finding["fix"]


@pytest.mark.parametrize(
    ("name", "args", "identity", "said"),
    [
        ("h200_in_lxc_without_uvm", [], "node.device_nodes", "/dev/nvidia-uvm is missing"),
        ("h200_in_lxc_with_shm_of_1_mib", [], "node.shm", "/dev/shm has 1 MiB of 1 MiB free"),
        (
            "h200_in_lxc_with_library_of_535",
            [],
            "driver.library",
            "kernel module 580.159.04, library 535.261.03",
        ),
        ("h200_held_by_another", ["--needs", "130"], "gpu.memory", "held by pid 2476 (python3)"),
        ("h200_in_lxc_held_from_outside", [], "gpu.processes", "no process is to be seen"),
    ],
)
def test_a_fault_made_on_a_real_machine_is_named(
    name: str, args: list[str], identity: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _, report = replay("gpus", HERE / f"{name}.json", args, capsys)
    (finding,) = [f for f in report["findings"] if f["id"] == identity]
    assert said in finding["message"]


def test_the_demonstration_s_record_is_green_replayed_and_says_that_it_is_composed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, report = replay("gpus", TWO_A6000, ["--expect", "2"], capsys)
    assert code == 0
    assert (report["verdict"], report["evidence"]) == ("pass", "replayed")
    assert report["facts"]["host"].startswith("composed")
    assert report["facts"]["driver"] == "535.261.03"
    assert [gpu["pci"] for gpu in report["facts"]["gpus"]] == ["0000:01:00.0", "0000:02:00.0"]
    assert {gpu["name"] for gpu in report["facts"]["gpus"]} == {"NVIDIA RTX A6000"}
    assert main(["gpus", "--replay", str(TWO_A6000), "--expect", "2"]) == 0
    assert "REPLAYED (pass)" in capsys.readouterr().out
    assert replay("gpus", TWO_A6000, ["--expect", "3"], capsys)[0] == 1


def test_every_record_is_in_the_index() -> None:
    assert {f"{row[0]}.json" for row in ROWS} == {path.name for path in HERE.glob("*.json")}


def test_a_replay_is_the_same_twice(capsys: pytest.CaptureFixture[str]) -> None:
    path = HERE / "a6000_pair_bridge_and_riser.json"
    assert replay("gpus", path, [], capsys) == replay("gpus", path, [], capsys)
