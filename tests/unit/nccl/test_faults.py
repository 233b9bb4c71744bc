"""Each fault of a library ends within its deadline, with the finding that names it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.doubles.build import library
from tests.unit.nccl.conftest import Rig, probes, rig_segments

SHORT = ("--size", "1M", "--init-deadline", "2", "--size-deadline", "2.5")
HANGS = ("--size", "64K", "--init-deadline", "1.5", "--size-deadline", "1.2")
"""For runs that hang two or three times on purpose, and are judged by nothing else."""


def test_a_healthy_pair_is_green_in_every_part(rig: Rig) -> None:
    said = rig.run("--size", "1M")
    assert said.bad == set()
    for identity in (
        "nccl.library",
        "nccl.cuda_runtime",
        "nccl.environment",
        "nccl.init",
        "nccl.hang",
        "nccl.sums",
    ):
        assert said.status(identity) == "pass"
    pairs = {f["subject"]: f["status"] for f in said.report["findings"] if f["id"] == "nccl.peer_copy"}
    assert pairs == {"pair 0-1": "pass", "pair 1-0": "pass"}
    assert said.of("nccl.transport")["message"] == "P2P/CUMEM on 2 hops"
    assert "right at 8 B, 1 MiB; 3 times each" in said.of("nccl.sums")["message"]


def test_one_gpu_gets_its_own_part_and_a_skip_for_the_rest(rig: Rig) -> None:
    said = rig.run("--size", "1M", "--gpus", "0")
    assert said.code == 0
    assert said.status("nccl.sums") == "pass"
    for identity in ("nccl.peer_copy", "nccl.busbw", "nccl.transport", "nccl.slow_rank"):
        finding = said.of(identity)
        assert finding["status"] == "skip"
        assert "one GPU" in finding["message"]


def test_a_wrong_sum_is_a_failure_that_names_the_rank_that_saw_it(rig: Rig) -> None:
    said = rig.run(*SHORT, KPRO_DOUBLE_NCCL="wrong-sum:gpu1:after=4")
    assert said.code == 1
    assert said.bad == {"nccl.sums"}
    assert "seen by rank 1 (gpu1)" in said.of("nccl.sums")["message"]
    assert said.of("nccl.sums")["value"] == 1


def test_a_wrong_sum_outranks_a_later_death(rig: Rig) -> None:
    said = rig.run(*SHORT, KPRO_DOUBLE_NCCL="wrong-sum:gpu0:after=1,crash:gpu1:after=6")
    assert said.bad >= {"nccl.sums", "nccl.crash"}


def test_one_corrupted_pair_is_named_and_the_other_direction_is_well(rig: Rig) -> None:
    said = rig.run(*SHORT, KPRO_DOUBLE_CUDA="corrupt-peer:0-1")
    pairs = {f["subject"]: f for f in said.report["findings"] if f["id"] == "nccl.peer_copy"}
    assert pairs["pair 0-1"]["status"] == "fail"
    assert pairs["pair 1-0"]["status"] == "pass"
    assert "the driver reported success" in pairs["pair 0-1"]["message"]
    assert "ACS" in pairs["pair 0-1"]["cause"]


def test_a_copy_that_hangs_is_killed_and_names_its_pair(rig: Rig) -> None:
    said = rig.run(*SHORT, KPRO_DOUBLE_CUDA="hang:cuMemcpyPeerAsync:gpu0,ignore-term")
    pairs = {f["subject"]: f for f in said.report["findings"] if f["id"] == "nccl.peer_copy"}
    assert "hung" in pairs["pair 0-1"]["message"]
    assert pairs["pair 1-0"]["status"] == "pass"
    assert said.seconds < 25


def test_a_gpu_that_hangs_by_itself_is_named_and_not_the_way_to_it(rig: Rig) -> None:
    said = rig.run(*HANGS, KPRO_DOUBLE_CUDA="never:gpu1")
    pairs = {f["subject"]: f for f in said.report["findings"] if f["id"] == "nccl.peer_copy"}
    assert {f["status"] for f in pairs.values()} == {"fail"}
    for finding in pairs.values():
        assert finding["message"].startswith("gpu1 hung in its own work before the copy")
        assert "ACS" not in finding["cause"]


def test_a_hang_while_the_communicator_is_built_ends_at_its_deadline(rig: Rig) -> None:
    said = rig.run(*HANGS, KPRO_DOUBLE_NCCL="hang-init:gpu1,ignore-term")
    assert said.code == 1
    finding = said.of("nccl.init")
    assert finding["status"] == "fail"
    assert "building the communicator" in finding["message"]
    assert said.seconds < 20
    assert said.status("nccl.sums") == "unknown"


def test_a_rank_that_never_gives_its_order_is_the_one_to_blame(rig: Rig) -> None:
    said = rig.run(*HANGS, KPRO_DOUBLE_NCCL="stuck:gpu1:after=4,ignore-term")
    finding = said.of("nccl.hang")
    assert finding["subject"] == "gpu1"
    assert "rank 1 (gpu1) hung" in finding["message"]
    assert said.seconds < 25


def test_a_hang_that_ends_without_peer_access_is_the_path_and_says_workaround_and_repair_apart(
    rig: Rig,
) -> None:
    said = rig.run(*HANGS, KPRO_DOUBLE_NCCL="leak,hang:after=4:p2p")
    finding = said.of("nccl.hang")
    assert "peer-to-peer path" in finding["cause"]
    assert "ACS" in finding["fix"]
    assert "NCCL_P2P_DISABLE" not in finding["fix"]
    assert said.of("nccl.workaround")["value"] == "NCCL_P2P_DISABLE=1"
    assert [run["name"] for run in said.report["facts"]["runs"]] == ["as found", "without P2P"]
    assert rig_segments(rig.scratch) == []


def test_a_hang_that_ends_only_without_shared_memory_is_told_from_that(rig: Rig) -> None:
    said = rig.run(*HANGS, KPRO_DOUBLE_NCCL="hang:after=4:shm")
    assert "shared memory" in said.of("nccl.hang")["cause"]
    assert said.of("nccl.workaround")["value"] == "NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1"


def test_a_rank_that_dies_is_named_with_its_signal(rig: Rig) -> None:
    said = rig.run(*SHORT, KPRO_DOUBLE_NCCL="crash:gpu1:after=5")
    finding = said.of("nccl.crash")
    assert (finding["status"], finding["subject"]) == ("fail", "gpu1")
    assert "signal 6" in finding["message"]


def test_one_rank_alone_that_dies_has_its_signal_too(rig: Rig) -> None:
    said = rig.run("--size", "64K", "--gpus", "0", KPRO_DOUBLE_NCCL="crash")
    assert "died (signal 6)" in said.of("nccl.crash")["message"]


def test_an_error_of_nccl_is_a_failure_in_the_step_where_it_came(rig: Rig) -> None:
    said = rig.run(*SHORT, KPRO_DOUBLE_NCCL="error:gpu0:after=3")
    assert "unhandled system error" in said.of("nccl.crash")["message"]


def test_a_slow_rank_is_named(rig: Rig) -> None:
    said = rig.run(*SHORT, KPRO_DOUBLE_NCCL="slow:gpu1:s=0.05")
    finding = said.of("nccl.slow_rank")
    assert (finding["status"], finding["subject"]) == ("warn", "gpu1")


def test_shared_memory_that_is_too_small_is_read_from_nccls_own_words(rig: Rig) -> None:
    said = rig.run(*SHORT, KPRO_DOUBLE_NCCL="init-error:gpu0,warn-shm:gpu0")
    finding = said.of("nccl.init")
    assert "/dev/shm is too small" in finding["cause"]
    assert said.of("nccl.workaround")["value"] == "NCCL_SHM_DISABLE=1"


@pytest.mark.parametrize(
    ("via", "status"), [("shm", "warn"), ("net", "fail")], ids=["through host memory", "through the network"]
)
def test_a_worse_way_than_the_driver_allows_is_said(rig: Rig, via: str, status: str) -> None:
    assert rig.run(*SHORT, KPRO_DOUBLE_NCCL=f"via={via}").status("nccl.transport") == status


def test_shared_memory_that_killed_ranks_leave_is_removed_and_nobody_elses(rig: Rig) -> None:
    foreign = Path(f"/dev/shm/nccl-foreign-{rig.scratch.parent.name[-12:]}")
    foreign.write_bytes(b"somebody else's")
    try:
        said = rig.run(*SHORT, KPRO_DOUBLE_NCCL="leak,crash:gpu0:after=2")
        assert said.code == 1
        assert foreign.exists()
        assert rig_segments(rig.scratch) == []
    finally:
        foreign.unlink()


def words(pid: int) -> bytes:
    """The command line of a process; a probe may have ended meanwhile."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_a_rank_that_is_stopped_is_told_from_a_broken_path_and_nothing_is_switched_off(rig: Rig) -> None:
    process = subprocess.Popen(
        rig.argv("--size", "16M", "--curve", "--init-deadline", "5", "--size-deadline", "2"),
        env=rig.environment(KPRO_DOUBLE_NCCL="slow:s=0.02"),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    limit = time.monotonic() + 30
    while len(ranks := [pid for pid in probes(rig.scratch) if b"nccl-rank" in words(pid)]) < 2:
        assert time.monotonic() < limit
        time.sleep(0.02)
    while not all(b"libcuda" in mapped(pid) for pid in ranks):
        assert time.monotonic() < limit
        time.sleep(0.02)
    time.sleep(0.5)
    os.kill(max(ranks), signal.SIGSTOP)
    began = time.monotonic()
    out, _ = process.communicate(timeout=60)
    assert time.monotonic() - began < 15
    report = json.loads(out)
    (finding,) = [f for f in report["findings"] if f["id"] == "nccl.hang"]
    assert (finding["status"], finding["subject"]) == ("fail", "gpu1")
    assert "rank 1 (gpu1) was stopped" in finding["message"]
    assert "stopped from outside" in finding["cause"]
    assert [run["name"] for run in report["facts"]["runs"]] == ["as found"]
    assert report["facts"]["p2p"]["state"] == "unproven"


def mapped(pid: int) -> bytes:
    """The files that a process has mapped."""
    try:
        return Path(f"/proc/{pid}/maps").read_bytes()
    except OSError:
        return b""


def hanging(rig: Rig, signals: str, *args: str) -> subprocess.Popen[bytes]:
    """A run whose rank hangs and holds shared memory by now. ``signals`` is an option of env: whoever runs the tests
    may ignore a signal (nohup does), and what it starts would inherit that."""
    process = subprocess.Popen(
        ["env", signals, *rig.argv("--size", "64K", "--gpus", "0", *args)],
        env=rig.environment(KPRO_DOUBLE_NCCL="leak,hang-init,ignore-term"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    limit = time.monotonic() + 30
    while not any(b"nccl-rank" in words(pid) for pid in probes(rig.scratch)):
        assert time.monotonic() < limit
        time.sleep(0.05)
    while not rig_segments(rig.scratch):
        assert time.monotonic() < limit
        time.sleep(0.05)
    time.sleep(0.2)
    return process


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_ranks_that_hang_die_with_their_parent_however_that_ends(rig: Rig, end: signal.Signals) -> None:
    process = hanging(rig, "--default-signal")
    process.send_signal(end)
    process.wait(timeout=60)
    assert process.returncode == (-end if end is signal.SIGKILL else 128 + end)


def test_a_run_under_nohup_outlives_the_terminal_and_gives_its_verdict(rig: Rig) -> None:
    process = hanging(rig, "--ignore-signal=HUP", "--init-deadline", "2")
    process.send_signal(signal.SIGHUP)
    assert process.wait(timeout=60) == 1


def test_a_missing_library_is_said_before_anything_is_tried(rig: Rig) -> None:
    said = rig.run("--size", "1M", "--library", "/nowhere/libnccl.so.2")
    assert said.code == 2
    assert "/nowhere/libnccl.so.2" in said.stderr


def test_a_library_that_lacks_a_function_is_named_with_it(rig: Rig) -> None:
    folder = library("nccl", hidden=("ncclCommAbort",))
    said = rig.run("--library", str(folder / "libnccl.so.2"))
    finding = said.of("nccl.library")
    assert finding["status"] == "fail"
    assert "lacks ncclCommAbort" in finding["message"]


def test_a_library_too_old_for_deadlines_is_refused(rig: Rig) -> None:
    said = rig.run(KPRO_DOUBLE_NCCL="version=20800")
    assert said.of("nccl.library")["value"] == "2.8.0"
    assert said.bad == {"nccl.library"}


@pytest.mark.parametrize(
    ("settings", "status", "word"),
    [
        ("code=802", "fail", "802"),
        ("code=35,driver=12000", "fail", "too old"),
        ("version=13000,driver=12040", "fail", "too old"),
        ("code=100,count=0", "unknown", "100"),
        ("code=999", "fail", "999"),
    ],
)
def test_what_the_runtime_says_of_the_driver_is_judged(
    rig: Rig, settings: str, status: str, word: str
) -> None:
    finding = rig.run("--size", "64K", "--gpus", "0", KPRO_DOUBLE_CUDART=settings).of("nccl.cuda_runtime")
    assert finding["status"] == status
    assert word in finding["message"]


def test_no_gpu_is_unknown_and_never_green(rig: Rig) -> None:
    said = rig.run(KPRO_DOUBLE_CUDA="gpus=0", KPRO_DOUBLE_CUDART="count=0,code=100")
    assert said.code == 3
    assert said.status("nccl.gpus") == "unknown"


def test_a_replayed_record_is_judged_as_it_was_live(rig: Rig, tmp_path: Path) -> None:
    record = tmp_path / "nccl.json"
    live = rig.run(*SHORT, "--record", str(record), KPRO_DOUBLE_NCCL="wrong-sum:gpu1:after=4")
    again = rig.run("--replay", str(record))
    assert again.code == live.code == 1
    assert again.report["findings"] == live.report["findings"]
    assert again.report["evidence"] == "replayed"


def test_a_record_keeps_no_serial_number(rig: Rig, tmp_path: Path) -> None:
    record = tmp_path / "nccl.json"
    rig.run(*SHORT, "--record", str(record))
    devices = json.loads(record.read_text())["nvml"]["devices"]
    assert {device["nvmlDeviceGetSerial"] for device in devices} == {"masked"}


def test_the_services_variables_reach_the_ranks(rig: Rig) -> None:
    said = rig.run(*SHORT, NCCL_P2P_DISABLE="1", NCCL_NVLS_ENABLE="1")
    message = said.of("nccl.environment")["message"]
    assert "NCCL_P2P_DISABLE=1" in message
    assert "NCCL_NVLS_ENABLE=1" in message
    assert "TORCH_SYMM_MEM_DISABLE_MULTICAST=1" in message
    transport = said.of("nccl.transport")
    assert transport["status"] == "warn"
    assert "NCCL_P2P_DISABLE=1" in transport["cause"]
