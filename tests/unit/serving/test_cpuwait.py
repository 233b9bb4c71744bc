"""A thread that is ready and gets no CPU is seen in the scheduler's own account, live and from a record."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from checks.serving import cpuwait
from checks.serving.baseline import Baseline
from checks.serving.observation import Observation
from checks.serving.report import report

SPIN = "import time\nend = time.monotonic() + 20\nwhile time.monotonic() < end: pass"


def _thread(proc: Path, pid: int, tid: int, run: int, wait: int, children: str = "") -> None:
    folder = proc / str(pid) / "task" / str(tid)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "schedstat").write_text(f"{run} {wait} 7\n")
    (folder / "children").write_text(children)


def test_threads_of_the_process_and_of_its_descendants_are_counted(tmp_path: Path) -> None:
    _thread(tmp_path, 10, 10, 1, 2, "20 ")
    _thread(tmp_path, 10, 11, 3, 4)
    _thread(tmp_path, 20, 20, 5, 6, "10 20 30")
    _thread(tmp_path, 40, 40, 9, 9)
    assert cpuwait.account(10, tmp_path) == {"10": (1, 2), "11": (3, 4), "20": (5, 6)}


@pytest.mark.parametrize("text", ["", "x y z\n", "1\n", "-1 2 3\n"])
def test_an_account_that_cannot_be_read_is_left_out(tmp_path: Path, text: str) -> None:
    _thread(tmp_path, 10, 10, 1, 2)
    (tmp_path / "10/task/10/schedstat").write_text(text)
    assert cpuwait.account(10, tmp_path) == {}
    assert cpuwait.account(99, tmp_path) == {}


def test_the_busiest_thread_speaks_and_an_idle_one_does_not() -> None:
    before = {"1": (0, 0), "2": (0, 0)}
    assert cpuwait.waited(before, {"1": (10**9, 10**9), "2": (10, 10**8)}) == 0.5
    assert cpuwait.waited(before, {"1": (10**6, 10**6), "2": (0, 0)}) is None
    assert cpuwait.waited(before, {"3": (10**9, 10**9)}) is None
    assert cpuwait.waited({"1": (10**9, 0)}, {"1": (0, 0)}) is None


@pytest.mark.skipif(
    not Path("/proc/self/schedstat").exists(), reason="this kernel keeps no scheduler account"
)
def test_two_busy_processes_on_one_core_wait_for_each_other() -> None:
    core = min(os.sched_getaffinity(0))
    pair = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(2)]
    try:
        for one in pair:
            os.sched_setaffinity(one.pid, {core})
        time.sleep(0.3)
        before = cpuwait.account(pair[0].pid)
        time.sleep(1.2)
        share = cpuwait.waited(before, cpuwait.account(pair[0].pid))
    finally:
        for one in pair:
            one.kill()
            one.wait()
    assert share is not None
    assert share > 0.25


PAGE = """vllm:generation_tokens_total{engine="0"} 5000
vllm:request_decode_time_seconds_count{engine="0"} 40
vllm:request_decode_time_seconds_sum{engine="0"} 28
"""
LOG = (
    "INFO non-default args: {'model': 'm'}\n"
    "INFO Initializing a V1 LLM engine (v0.20.1) with config: model='m', speculative_config=None,"
    " tensor_parallel_size=1, pipeline_parallel_size=1, enforce_eager=False, device_config=cuda\n"
    "INFO Graph capturing finished in 1 secs, took 0.05 GiB\n"
)
OFF = Baseline("off", engine="vllm", version="0.20.1", tok_s=673.0, ms_per_step=1.49)


def _opinions(wait: float | None) -> tuple[dict[str, float], set[str]]:
    seen = replace(Observation(after=PAGE, log=LOG), window={"cpu_wait": wait, "tok_s": {"1": 177.0}})
    found = report(seen, (OFF,), with_diagnosis=True).facts["diagnosis"]
    return {row["id"]: row["weight"] for row in found["causes"]}, {row["id"] for row in found["excluded"]}


def test_a_slow_engine_is_starved_when_it_waits_for_cpus_and_is_not_when_it_does_not() -> None:
    assert _opinions(0.66)[0]["starved_cpu"] == 0.9
    assert "starved_cpu" in _opinions(0.01)[1]
    assert 0.5 < _opinions(0.12)[0]["starved_cpu"] < 0.9
    assert 0.5 < _opinions(None)[0]["starved_cpu"] < 0.9
