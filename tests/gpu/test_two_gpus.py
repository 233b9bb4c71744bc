"""Two GPUs of this machine: verdict, rates against torch.distributed, faults made in flight, another way, two nodes.

Only by name (``./test gpu``, or part ``pair`` of scripts/gpu-session), where two NVIDIA GPUs are; else red. NVLink
multicast is off in whatever is started here."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.gpu import rig
from tests.gpu.rig import ENGINE, RECORDS, Said
from tests.gpu.torch_rate import OFF

GIB = 1 << 30
HERE = Path(__file__).parent
GPUS = len(list(Path("/proc/driver/nvidia/gpus").glob("*")))
TOLD = Callable[[str, object], None]
SERVICE = ("--env", ENGINE)
WELL = ("pass", "warn")
pytestmark = pytest.mark.skipif(GPUS == 1, reason="one GPU is here: these tests need two")


@pytest.fixture(autouse=True)
def _multicast_off_and_gpus_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in OFF.items():
        monkeypatch.setenv(name, value)
    rig.idle()


@pytest.fixture(scope="module")
def curve() -> tuple[Said, rig.Running, dict[int, float]]:
    """The rate at every size by provcheck, and right after it by torch.distributed."""
    for name, value in OFF.items():
        os.environ[name] = value
    running = rig.start("nccl", *SERVICE, "--size", "4G", "--curve", record="pair-curve")
    said = rig.watched(running)
    (RECORDS / "pair-curve.json").write_text(json.dumps(said.report))
    python = Path(ENGINE) / "bin/python3"
    done = subprocess.run(
        [str(python if python.exists() else sys.executable), str(HERE / "torch_rate.py"), "2", str(4 * GIB)],
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
        timeout=170,
    )
    (RECORDS / "pair-torch.jsonl").write_text(done.stdout)
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert rows, f"torch.distributed gave no rate (exit {done.returncode}): {done.stderr[-800:]}"
    return said, running, {row["bytes"]: row["busbw"] for row in rows}


def test_there_are_two_gpus() -> None:
    assert GPUS == 2, f"{GPUS} NVIDIA GPUs are here (/proc/driver/nvidia/gpus): these tests need two"


def test_gpus_and_nccl_are_green_within_15_seconds(record_property: TOLD) -> None:
    gpus = rig.run("gpus", "--expect", "2", record="pair-gpus")
    nccl = rig.run("nccl", *SERVICE, record="pair-nccl")
    record_property("seconds", f"gpus {gpus.seconds:.2f} + nccl {nccl.seconds:.2f}")
    record_property("busbw", nccl.one("nccl.busbw")["message"])
    assert (gpus.report["verdict"] in WELL, nccl.report["verdict"] in WELL) == (True, True), [
        finding
        for finding in (*gpus.report["findings"], *nccl.report["findings"])
        if finding["status"] == "fail"
    ]
    assert nccl.one("nccl.busbw")["status"] == "pass"
    assert gpus.seconds + nccl.seconds <= 15


def test_a_third_gpu_that_is_expected_is_missed() -> None:
    assert rig.run("gpus", "--expect", "3").one("gpu.count")["status"] == "fail"


def test_load_is_green_on_both(record_property: TOLD) -> None:
    load = rig.run("load", record="pair-load")
    record_property("seconds", f"{load.seconds:.1f}")
    assert load.report["verdict"] in WELL, [f for f in load.report["findings"] if f["status"] not in WELL]


def test_copies_arrive_whole_both_ways(curve: tuple[Said, rig.Running, dict[int, float]]) -> None:
    said, _, _ = curve
    assert {f["subject"]: f["status"] for f in said.of("nccl.peer_copy")} == {
        "pair 0-1": "pass",
        "pair 1-0": "pass",
    }


def test_sums_are_right_up_to_4_gib_and_each_size_from_8_bytes_has_its_rate(
    curve: tuple[Said, rig.Running, dict[int, float]], record_property: TOLD
) -> None:
    said, _, _ = curve
    rows = {row["bytes"]: row["busbw"] for row in said.report["facts"]["rates"]}
    record_property("busbw", said.one("nccl.busbw")["message"])
    assert list(rows) == [8 << power for power in range(30)]
    assert said.one("nccl.sums")["status"] == "pass"
    assert "4 GiB" in said.one("nccl.sums")["message"]
    assert rows[4 * GIB] > rows[1 << 20] > rows[8]


@pytest.mark.parametrize("gib", [1, 2, 4])
def test_from_1_gib_on_the_rate_is_that_of_torch_distributed(
    curve: tuple[Said, rig.Running, dict[int, float]], gib: int, record_property: TOLD
) -> None:
    said, _, torch = curve
    ours = next(row["busbw"] for row in said.report["facts"]["rates"] if row["bytes"] == gib * GIB)
    record_property("GB/s", f"{ours:.1f} against {torch[gib * GIB]:.1f}, ratio {ours / torch[gib * GIB]:.3f}")
    assert ours / torch[gib * GIB] >= 0.97


def test_multicast_is_off_in_every_probe_before_its_first_collective(
    curve: tuple[Said, rig.Running, dict[int, float]], record_property: TOLD
) -> None:
    said, running, _ = curve
    record_property("processes", len(running.environ))
    assert len(running.environ) >= 2
    for environ in running.environ.values():
        assert {name: environ.get(name) for name in OFF} == OFF
    assert said.one("nccl.environment")["status"] == "pass"


def test_the_three_variables_are_ours_without_the_machine_s_help() -> None:
    """Nothing of the caller's environment says it here; the ranks are started with it all the same."""
    before = ("env", *(word for name in OFF for word in ("-u", name)))
    running = rig.start("nccl", *SERVICE, "--size", "1M", "--gpus", "0", before=before)
    rig.watched(running)
    ranks = list(running.environ.values())
    assert [{name: environ.get(name) for name in OFF} for environ in ranks if "NCCL_DEBUG" in environ] != []
    assert all({name: e.get(name) for name in OFF} == OFF for e in ranks if "NCCL_DEBUG" in e)


def test_a_rank_that_is_killed_in_flight_is_named_at_once(record_property: TOLD) -> None:
    running = rig.start("nccl", *SERVICE, "--size", "2G", "--curve", record="pair-killed")
    ranks = rig.in_flight(running, 3_000_000_000)
    os.kill(ranks[1], signal.SIGKILL)
    at = time.monotonic()
    said = running.end(60)
    record_property("seconds until the verdict", f"{time.monotonic() - at:.1f}")
    finding = said.one("nccl.crash")
    record_property("said", finding["message"])
    assert (finding["status"], finding["subject"]) == ("fail", "gpu1")
    assert "signal 9" in finding["message"]
    assert "all-reduce" in finding["message"]
    assert [run["name"] for run in said.report["facts"]["runs"]] == ["as found"]
    assert time.monotonic() - at < 10


def test_a_rank_that_is_stopped_in_flight_is_named_within_the_deadline(record_property: TOLD) -> None:
    running = rig.start(
        "nccl", *SERVICE, "--size", "2G", "--curve", "--size-deadline", "4", record="pair-stopped"
    )
    ranks = rig.in_flight(running, 3_000_000_000)
    os.kill(ranks[1], signal.SIGSTOP)
    at = time.monotonic()
    said = running.end(60)
    record_property("seconds until the verdict", f"{time.monotonic() - at:.1f}")
    finding = said.one("nccl.hang")
    record_property("said", finding["message"])
    assert (finding["status"], finding["subject"]) == ("fail", "gpu1")
    assert "was stopped" in finding["message"]
    assert said.report["facts"]["p2p"]["state"] == "unproven"
    assert time.monotonic() - at < 2 * 4 + 6


def test_afterwards_the_pair_is_as_well_as_before() -> None:
    said = rig.run("nccl", *SERVICE, "--size", "64M")
    assert {f["status"] for f in said.report["findings"]} <= {"pass", "skip", "warn"}
    assert said.one("nccl.hang")["status"] == "pass"
    assert said.one("nccl.gpus")["status"] == "pass" if said.of("nccl.gpus") else True


def test_without_peer_access_the_way_and_the_lower_rate_are_named(record_property: TOLD) -> None:
    said = rig.run("nccl", *SERVICE, record="pair-without-p2p", NCCL_P2P_DISABLE="1")
    way, rate = said.one("nccl.transport"), said.one("nccl.busbw")
    record_property("said", f"{way['message']}; {rate['message']}")
    assert (way["status"], rate["status"]) == ("warn", "fail")
    assert "SHM" in way["message"]
    assert "NCCL_P2P_DISABLE=1" in way["cause"]
    assert float(rate["value"]) < 0.25 * float(rate["limit"])


def test_two_nodes_by_host_name_are_judged_by_what_their_sockets_carry(record_property: TOLD) -> None:
    """Another host name makes NCCL take the two for two hosts, on one machine without a container."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        at = f"127.0.0.1:{free.getsockname()[1]}"
    runs = []
    for node in range(2):
        before = ("unshare", "-u", "sh", "-c", f'hostname kpro-node{node}; exec "$@"', "sh")
        words = (
            "--rdzv",
            at,
            "--nnodes",
            "2",
            "--node-rank",
            str(node),
            "--gpus",
            str(node),
            "--size",
            "256M",
        )
        runs.append(rig.start("nccl", *SERVICE, *words, record=f"pair-node{node}", before=before))
    for node, running in enumerate(runs):
        said = rig.watched(running, 120)
        (RECORDS / f"pair-node{node}.json").write_text(json.dumps(said.report))
        rate = said.one("nccl.busbw")
        record_property(f"node {node}", rate["message"])
        assert said.one("nccl.sums")["status"] == "pass"
        assert "NET/Socket" in said.one("nccl.transport")["message"]
        assert "one TCP connection each way" in rate["message"]
        assert rate["status"] in WELL
        assert said.one("nccl.node")["status"] == "pass"
        assert said.one("nccl.own_gpu")["status"] == "pass"
