"""GPUs that lie, hang, crash or are in use: each ends in time, is named, and hides no other GPU."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from checks import pack
from tests.unit.checks import load_rig
from tests.unit.checks.load_rig import SMALL, environment, load
from tests.unit.checks.nvml_rig import MARK, assert_gone, marked, wait

NOT_MEASURED = "not measured: the run ended at '{}'"


def test_two_sound_gpus_pass_every_check_with_their_numbers(tmp_path: Path) -> None:
    seen = load(tmp_path, environment())
    assert (seen.code, seen.bad("gpu0"), seen.bad("gpu1")) == (0, {}, {})
    assert seen.finding("load.h2d")["value"] == pytest.approx(55.4, rel=0.01)
    assert seen.finding("load.d2h")["value"] == pytest.approx(55.1, rel=0.01)
    assert seen.finding("load.memory_bandwidth")["value"] == pytest.approx(4300, rel=0.01)
    assert "MHz at work, up to 76 W, the power cap" in seen.finding("load.clocks")["message"]
    heat = seen.report["facts"]["gpus"][1]["steps"]["heat"]
    assert heat["chains"]["launches"] > 0
    assert heat["tensor"]["launches"] > 0
    assert seen.report["facts"]["driver"] == "580.159.04"


@pytest.mark.parametrize(
    ("fault", "identity", "words"),
    [
        ("corrupt-h2d:gpu1", "load.copy_integrity", "on the way to the GPU"),
        ("corrupt-d2h:gpu1", "load.copy_integrity", "on the way to the host"),
        ("corrupt-memory:gpu1", "load.memory_pattern", "the first at byte 16388"),
        ("corrupt-compute:gpu1:sm=3", "load.compute", "on multiprocessor 3"),
        ("corrupt-tensor:gpu1:sm=2", "load.tensor", "on multiprocessor 2"),
        ("slow-h2d:gpu1:x=0.3", "load.h2d", "26% of gen5 x16"),
        ("slow-d2h:gpu1:x=0.3", "load.d2h", "26% of gen5 x16"),
        ("slow-memory:gpu1:x=0.6", "load.memory_bandwidth", "54% of the data sheet"),
    ],
)
def test_a_gpu_that_lies_or_lags_fails_alone(tmp_path: Path, fault: str, identity: str, words: str) -> None:
    seen = load(tmp_path, environment(fault))
    assert seen.code == 1
    assert seen.bad("gpu0") == {}
    assert [i for i, status in seen.bad("gpu1").items() if status == "fail"] == [identity]
    assert words in seen.finding(identity, "gpu1")["message"]


def test_a_link_that_changes_data_does_not_make_the_multiprocessors_guilty(tmp_path: Path) -> None:
    seen = load(tmp_path, environment("corrupt-d2h:gpu0"))
    assert seen.status("load.compute") == "unknown"
    assert "do not arrive unchanged" in seen.finding("load.compute")["message"]


def test_memory_that_changes_data_does_not_make_the_link_guilty(tmp_path: Path) -> None:
    seen = load(tmp_path, environment("corrupt-memory:gpu0"))
    assert seen.status("load.copy_integrity") in ("pass", "unknown")


@pytest.mark.parametrize(
    ("nvml", "identity", "status", "words"),
    [
        (
            "set:nvmlDeviceGetCurrPcieLinkWidth:is=8:gpu1",
            "load.pcie_width",
            "fail",
            "x8 of x16 while copying",
        ),
        ("set:nvmlDeviceGetCurrPcieLinkGeneration:is=3:gpu1", "load.pcie_generation", "fail", "gen3 of gen5"),
        ("set:nvmlDeviceGetTemperature:is=90:gpu1", "load.temperature", "fail", "slowdown temperature is 89"),
        ("error:nvmlDeviceGetCurrPcieLinkWidth:code=999:gpu1", "load.pcie_width", "unknown", "code 999"),
    ],
)
def test_what_nvml_says_under_load_is_judged(
    tmp_path: Path, nvml: str, identity: str, status: str, words: str
) -> None:
    seen = load(tmp_path, environment(nvml=f"gpus=2,{nvml}"))
    assert seen.bad("gpu1") == {identity: status}
    assert words in seen.finding(identity, "gpu1")["message"]
    assert seen.bad("gpu0") == {}


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (802, "fabric"),
        (999, "uvm"),
        (100, "CUDA_VISIBLE_DEVICES"),
        (304, "cgroup"),
        (803, "different versions"),
    ],
)
def test_a_driver_that_does_not_start_is_named_by_its_code(tmp_path: Path, code: int, words: str) -> None:
    seen = load(tmp_path, environment(f"init={code}", "gpus=1"))
    found = seen.finding("load.start")
    assert (seen.code, found["status"], found["value"]) == (1, "fail", code)
    assert words in found["cause"]
    assert seen.finding("load.compute")["message"] == NOT_MEASURED.format("start")


def test_without_libcuda_no_program_can_use_the_gpu(tmp_path: Path) -> None:
    seen = load(tmp_path, environment(nvml="gpus=1", without="cuda"))
    assert seen.status("load.start") == "fail"
    assert "libcuda.so.1 cannot be loaded" in seen.finding("load.start")["message"]


def test_a_library_without_a_needed_function_is_named_with_it(tmp_path: Path) -> None:
    seen = load(tmp_path, environment(nvml="gpus=1", hidden=("cuMemcpyPeerAsync",)))
    assert "cuMemcpyPeerAsync" in seen.finding("load.start")["message"]


def test_a_driver_without_the_newer_uuid_call_is_asked_by_the_older(tmp_path: Path) -> None:
    seen = load(tmp_path, environment(nvml="gpus=1", hidden=("cuDeviceGetUuid_v2",)))
    assert seen.code == 0


def test_too_little_memory_is_no_verdict_on_the_gpu(tmp_path: Path) -> None:
    seen = load(tmp_path, environment("oom:gpu0"))
    assert (seen.code, seen.status("load.start")) == (3, "unknown")
    assert seen.bad("gpu1") == {}


@pytest.mark.parametrize(
    ("fault", "identity", "words"),
    [
        ("hang:cuDevicePrimaryCtxRetain:gpu0,ignore-term", "load.start", "hangs while making the context"),
        ("hang:cuMemcpyDtoHAsync_v2:gpu1,ignore-term", "load.d2h", "hangs while copying to the host"),
        ("hang:cuMemcpyHtoDAsync_v2:gpu1", "load.h2d", "hangs while copying to the GPU"),
        ("never:gpu1", "load.h2d", "hangs while filling memory"),
    ],
)
def test_a_hang_ends_in_time_and_is_named_by_its_step(
    tmp_path: Path, fault: str, identity: str, words: str
) -> None:
    seen = load(tmp_path, environment(fault))
    assert seen.code == 1
    assert seen.seconds < 12
    who = "gpu0" if "Retain" in fault else "gpu1"
    assert seen.status(identity, who) == "fail"
    assert words in seen.finding(identity, who)["message"]
    if who == "gpu1":
        assert seen.bad("gpu0") == {}


def test_a_crash_is_named_by_its_signal(tmp_path: Path) -> None:
    seen = load(tmp_path, environment("crash:cuLaunchKernel:gpu1"))
    assert "SIGSEGV" in seen.finding("load.h2d", "gpu1")["message"]
    assert seen.bad("gpu0") == {}


def test_a_gpu_lost_halfway_fails_with_the_drivers_word(tmp_path: Path) -> None:
    seen = load(tmp_path, environment("lost:gpu1:after=300"))
    failed = [i for i, status in seen.bad("gpu1").items() if status == "fail"]
    assert len(failed) == 1
    assert "999 CUDA_ERROR_UNKNOWN" in seen.finding(failed[0], "gpu1")["message"]
    assert "uvm" not in str(seen.finding(failed[0], "gpu1")["cause"]), "that is a cause at the start only"


def test_a_busy_gpu_is_not_loaded_and_its_user_is_said(tmp_path: Path) -> None:
    seen = load(tmp_path, environment(nvml="gpus=2,process:gpu1"))
    assert seen.code == 3
    assert seen.report["facts"]["gpus"] == [], "neither it nor its neighbour"
    assert seen.bad("gpu1") == {"load.busy": "unknown"}
    assert "in use, not loaded: process" in seen.finding("load.busy", "gpu1")["message"]


def test_a_busy_gpu_that_was_not_chosen_is_no_obstacle(tmp_path: Path) -> None:
    seen = load(tmp_path, environment(nvml="gpus=2,process:gpu1"), "--gpus", "0")
    assert (seen.code, {f["subject"] for f in seen.report["findings"]}) == (0, {"gpu0"})


def test_force_loads_a_busy_gpu_with_a_warning(tmp_path: Path) -> None:
    seen = load(tmp_path, environment(nvml="gpus=1,process:gpu0"), "--force")
    assert (seen.code, seen.bad("gpu0")) == (0, {"load.busy": "warn"})


def test_without_nvml_nothing_is_loaded_since_nobody_can_say_who_uses_the_gpu(tmp_path: Path) -> None:
    seen = load(tmp_path, environment(without="nvml"))
    assert (seen.code, seen.status("load.busy", "host"), len(seen.report["findings"])) == (3, "unknown", 1)


def test_a_gpu_that_is_not_there_is_not_green(tmp_path: Path) -> None:
    seen = load(tmp_path, environment(), "--gpus", "0,7")
    assert (seen.code, seen.status("load.busy", "gpu7")) == (3, "unknown")
    assert seen.status("load.compute", "gpu0") == "pass"


def test_a_record_replays_to_the_same_findings(tmp_path: Path) -> None:
    env = environment("slow-h2d:gpu1:x=0.3")
    seen = load(tmp_path, env)
    argv = load_rig.command("--json", "--replay", seen.record)
    replayed = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    report = json.loads(replayed.stdout)
    assert (replayed.returncode, report["evidence"]) == (seen.code, "replayed")
    assert report["findings"] == seen.report["findings"]


def test_a_record_keeps_no_serial_number_and_can_be_judged_at_rest_too(tmp_path: Path) -> None:
    seen = load(tmp_path, environment(nvml="gpus=1"))
    kept = seen.record.read_text()
    assert "1651210000007" not in kept + json.dumps(seen.report)
    argv = [sys.executable, "-m", "checks", "gpus", "--json", "--replay", str(seen.record)]
    rest = json.loads(subprocess.run(argv, capture_output=True, text=True, timeout=60).stdout)
    assert {f["id"] for f in rest["findings"]} >= {"gpu.ecc", "gpu.pcie_width"}


def test_the_single_file_loads_gpus_too(tmp_path: Path) -> None:
    single = tmp_path / "provcheck.pyz"
    pack.build(single)
    argv = [sys.executable, "-I", str(single), "load", "--json", *map(str, SMALL)]
    done = subprocess.run(argv, env=environment(nvml="gpus=1"), capture_output=True, text=True, timeout=60)
    assert (done.returncode, json.loads(done.stdout)["verdict"]) == (0, "pass"), done.stderr


def _mapped(pid: int, library: str) -> bool:
    try:
        return library in Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return False


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_no_child_outlives_an_interrupted_run(tmp_path: Path, how: signal.Signals) -> None:
    # A child in the middle of a call that never returns, with a deadline that is far off.
    env = environment("hang:cuMemcpyDtoHAsync_v2,ignore-term")
    argv = load_rig.command("--json", *SMALL, "--deadline", 100)
    process = subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait(lambda: any(_mapped(pid, "libcuda.so.1") for pid in marked(env[MARK])), "no child started", 20)
    time.sleep(1.0)
    os.kill(process.pid, how)
    process.communicate(timeout=20)
    assert_gone(env[MARK])
    assert process.returncode == (130 if how is signal.SIGINT else -9)


def test_eight_gpus_are_loaded_side_by_side(tmp_path: Path) -> None:
    seen = load(tmp_path, environment("gpus=8", "gpus=8"))
    assert seen.code == 0
    assert len(seen.report["facts"]["gpus"]) == 8


def test_another_machine_is_loaded_through_ssh(tmp_path: Path) -> None:
    env = environment(nvml="gpus=1")
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "ssh").write_text(
        '#!/bin/sh\nwhile [ "$1" != "--" ]; do shift; done; shift 2; exec sh -c "$1"\n'
    )
    (folder / "ssh").chmod(0o755)
    (folder / "python3").symlink_to(sys.executable)
    seen = load(tmp_path, {**env, "PATH": f"{folder}:{os.environ['PATH']}"}, "--host", "box")
    assert (seen.code, seen.report["evidence"]) == (0, "live"), seen.report["findings"]
    assert seen.status("load.compute") == "pass"
