"""A driver that hangs, crashes, lies or is not there: each ends in time, is named, and hides no other GPU."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from checks.gpus import collect
from checks.gpus.report import judge_record
from checks.gpus.supervise import Reading
from tests.unit.checks import nvml_rig
from tests.unit.checks.nvml_rig import Live, environment

WELL = {"pass", "skip"}


def live(tmp_path: Path, faults: str, *args: object, hidden: tuple[str, ...] = ()) -> Live:
    return nvml_rig.run(tmp_path, environment(faults, hidden), *args)


def others_are_judged(seen: Live, but: int, gpus: int = 3) -> None:
    for gpu in range(gpus):
        if gpu != but:
            for check in ("gpu.lost", "gpu.ecc", "gpu.power_limit", "gpu.temperature", "nvlink.state"):
                assert seen.status(check, f"gpu{gpu}") == "pass", (check, gpu)


def test_eight_well_gpus_are_all_judged(tmp_path: Path) -> None:
    seen = live(tmp_path, "", "--expect", 8)
    assert seen.status("driver.responds") == "pass"
    assert seen.finding("gpu.count")["value"] == 8
    others_are_judged(seen, but=-1, gpus=8)
    assert len(seen.nvml["p2p"]) == 56
    wanted = {
        "nvmlDeviceGetUUID",
        "memv2",
        "fabricV",
        "sram_ecc",
        "viol_board",
        "retired_dbe",
        "fields",
        "mig",
    }
    assert wanted <= seen.nvml["devices"][7].keys()
    assert seen.nvml["devices"][7]["nvlink"]["17"]["speed"] == 26562


def test_a_hang_is_a_finding_of_one_section_of_one_gpu(tmp_path: Path) -> None:
    seen = live(tmp_path, "gpus=3,hang:nvmlDeviceGetPowerUsage:gpu1,stubborn", "--deadline", 6)
    assert seen.code != 0
    assert seen.seconds < 6 + 2
    found = seen.finding("driver.responds")
    assert (found["status"], found["value"]) == ("unknown", ["gpu1, power"])
    assert "gpu1, power" in found["message"]
    others_are_judged(seen, but=1)
    assert seen.status("gpu.power_limit", "gpu1") == "unknown"
    assert seen.status("gpu.ecc", "gpu1") == "pass", "read before the hang"
    assert seen.status("gpu.temperature", "gpu1") == "pass", "read after the hang, by another child"
    assert seen.nvml["devices"][1]["nvmlDeviceGetPowerUsage"]["err"] == "Timeout"
    assert len(seen.nvml["p2p"]) == 6


def test_a_gpu_without_a_handle_in_time_is_left_and_the_others_are_read(tmp_path: Path) -> None:
    seen = live(tmp_path, "gpus=3,hang:nvmlDeviceGetHandleByIndex_v2:gpu1", "--deadline", 6)
    assert seen.finding("driver.responds")["value"] == ["gpu1, handle"]
    assert seen.status("gpu.ecc", "gpu1") == "unknown"
    others_are_judged(seen, but=1)
    pairs = {(row["a"], row["b"]): row["read"] for row in seen.nvml["p2p"]}
    assert (pairs[0, 2], pairs[0, 1]["err"], pairs[1, 0]["err"]) == (0, "Timeout", "Timeout")


def test_gpus_that_wait_for_a_lock_of_the_hanging_one_are_not_taken_for_hanging(tmp_path: Path) -> None:
    seen = live(tmp_path, "gpus=3,locked,hang:nvmlDeviceGetRemappedRows:gpu1", "--deadline", 9)
    assert seen.finding("driver.responds")["value"] == ["gpu1, remap"]
    others_are_judged(seen, but=1)


def test_two_hanging_gpus_are_both_named(monkeypatch: pytest.MonkeyPatch) -> None:
    faults = "gpus=4,hang:nvmlDeviceGetEccMode:gpu1,hang:nvmlDeviceGetRemappedRows:gpu2"
    for key, value in environment(faults).items():
        monkeypatch.setenv(key, value)
    taken = collect.collect(40.0, reading=Reading(40.0, section=0.8))
    by = {(f.id, f.subject): f for f in judge_record(taken, 4, replayed=False, name="live").findings}
    assert by["driver.responds", "host"].value == ["gpu1, ecc", "gpu2, remap"]
    for well in (
        ("gpu.ecc", "gpu0"),
        ("gpu.row_remap", "gpu3"),
        ("gpu.row_remap", "gpu1"),
        ("gpu.ecc", "gpu2"),
    ):
        assert by[well].status == "pass", well


def test_a_driver_that_hangs_everywhere_ends_at_the_deadline(tmp_path: Path) -> None:
    seen = live(tmp_path, "gpus=8,hang:nvmlDeviceGetEccMode,stubborn", "--deadline", 4.5)
    assert seen.seconds < 4.5 + 2
    assert seen.code != 0
    assert seen.finding("driver.responds")["value"][0] == "gpu0, ecc"
    assert set(seen.statuses("gpu.ecc")) == {"unknown"}
    assert set(seen.statuses("gpu.temperature")) <= {"unknown", "pass"}, "not asked any more is not green"


def test_a_start_that_never_returns_ends_at_the_deadline(tmp_path: Path) -> None:
    seen = live(tmp_path, "hang:nvmlInitWithFlags,stubborn", "--deadline", 1)
    assert seen.seconds < 1 + 2
    assert (seen.code, seen.status("driver.responds")) == (3, "unknown")
    assert "pass" not in seen.statuses("gpu.ecc")


@pytest.mark.parametrize("fault", ["crash", "exit"])
def test_a_crash_is_pinned_on_the_section_it_happened_in(tmp_path: Path, fault: str) -> None:
    seen = live(tmp_path, f"gpus=3,{fault}:nvmlDeviceGetMarginTemperature:gpu2", "--deadline", 20)
    found = seen.finding("driver.responds")
    assert (found["status"], found["value"]) == ("unknown", ["gpu2, temperature"])
    assert "died" in found["message"]
    others_are_judged(seen, but=2)
    assert seen.status("gpu.temperature", "gpu2") == "unknown"
    assert seen.status("gpu.ecc", "gpu2") == "pass"


def test_a_library_that_crashes_at_its_start_is_no_verdict(tmp_path: Path) -> None:
    seen = live(tmp_path, "crash:nvmlInitWithFlags")
    assert (seen.code, seen.status("driver.responds")) == (3, "unknown")
    assert "signal 11" in seen.finding("driver.responds")["message"]


@pytest.mark.parametrize("half", ["", ":half"])
def test_a_gpu_lost_on_the_way_is_lost_also_when_early_getters_answered(tmp_path: Path, half: str) -> None:
    seen = live(tmp_path, f"gpus=3,lost:gpu1:after=20{half}")
    assert (seen.code, seen.status("gpu.lost", "gpu1")) == (1, "fail")
    assert seen.status("gpu.identity", "gpu1") == "unknown"
    assert seen.status("driver.responds") == "pass"
    others_are_judged(seen, but=1)


def test_a_gpu_that_may_not_be_opened_hides_no_other(tmp_path: Path) -> None:
    seen = live(tmp_path, "gpus=3,error:nvmlDeviceGetHandleByIndex_v2:gpu0:code=4")
    assert seen.status("gpu.ecc", "gpu0") == "unknown"
    others_are_judged(seen, but=0)
    assert len(seen.nvml["p2p"]) == 6


@pytest.mark.parametrize(
    ("code", "status", "words"),
    [
        (18, "fail", "do not fit"),
        (9, "unknown", "modprobe|the PCI bus"),
        (4, "unknown", "/dev/nvidia"),
        (999, "unknown", "cgroup"),
    ],
)
def test_a_library_that_refuses_to_start_is_told_by_its_code(
    tmp_path: Path, code: int, status: str, words: str
) -> None:
    seen = live(tmp_path, f"init={code}", "--expect", 8)
    found = seen.finding("driver.library")
    assert found["status"] == status
    assert re.search(words, f"{found['message']} {found['cause']} {found['fix']}")
    assert "pass" not in seen.statuses("gpu.ecc")


def test_a_missing_symbol_is_that_getters_answer_alone(tmp_path: Path) -> None:
    seen = live(tmp_path, "gpus=2", hidden=("nvmlDeviceGetPowerUsage",))
    assert seen.nvml["devices"][0]["nvmlDeviceGetPowerUsage"]["err"] == 13
    assert seen.nvml["devices"][0]["nvmlDeviceGetEnforcedPowerLimit"] == 700000
    assert seen.status("gpu.ecc", "gpu0") == "pass"


def test_a_library_without_its_start_is_said_to_be_another(tmp_path: Path) -> None:
    seen = live(tmp_path, "", hidden=("nvmlInitWithFlags",))
    assert seen.status("driver.library") == "unknown"
    assert "lacks the function" in seen.finding("driver.library")["cause"]


def test_a_file_that_is_no_library_is_no_driver(tmp_path: Path) -> None:
    (tmp_path / "libnvidia-ml.so.1").write_text("not a library\n")
    seen = nvml_rig.run(tmp_path, environment("", folder=tmp_path), "--expect", 1)
    assert (seen.code, seen.status("driver.library")) in ((3, "unknown"), (1, "unknown"))
    assert "pass" not in seen.statuses("gpu.ecc")


def test_text_that_the_library_prints_disturbs_nothing(tmp_path: Path) -> None:
    seen = live(tmp_path, "gpus=2,noisy")
    assert seen.status("driver.responds") == "pass"
    others_are_judged(seen, but=-1, gpus=2)


def test_eight_gpus_cost_no_more_than_twice_one(tmp_path: Path) -> None:
    one = live(tmp_path, "gpus=1,call_ms=6")
    eight = live(tmp_path, "gpus=8,call_ms=6")
    assert len(eight.nvml["devices"]) == 8
    assert one.seconds > 1.0, "the double takes its time"
    assert eight.seconds < 2 * one.seconds


@pytest.mark.parametrize(
    ("sign", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9), (signal.SIGTERM, 143)]
)
def test_no_child_outlives_a_check_that_is_stopped(tmp_path: Path, sign: signal.Signals, code: int) -> None:
    env = environment("hang:nvmlDeviceGetEccMode,stubborn")
    started: subprocess.Popen[Any] = subprocess.Popen(
        nvml_rig.command("--deadline", 60),
        env=env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    nvml_rig.wait(lambda: nvml_rig.threads(env[nvml_rig.MARK]) >= 8, "eight threads of the child hang", 20)
    assert len(nvml_rig.marked(env[nvml_rig.MARK])) == 2
    time.sleep(0.3)
    os.kill(started.pid, sign)
    assert started.wait(timeout=20) == code
    nvml_rig.assert_gone(env[nvml_rig.MARK])
