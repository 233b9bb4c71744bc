"""Observing: the child, its deadline, and what becomes of a driver that lies, hangs or dies."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import pytest

from checks import child
from checks.gpus import collect, dump
from checks.gpus.dump import Gap

BINDING = """
import os, time
class NVMLError(Exception):
    def __init__(self, value): self.value = value
    def __str__(self): return "said by the fake"
_nvmlGetFunctionPointer = None
MODE = os.environ["FAKE_NVML"]
NVML_FI_DEV_GET_GPU_RECOVERY_ACTION = 230
class _Value:
    nvmlReturn, valueType = 0, 1
    class value: ullVal = uiVal = 0
def nvmlInit():
    if MODE == "hang": time.sleep(60)
    if MODE == "die": os.abort()
    if MODE == "mismatch": raise NVMLError(18)
def nvmlSystemGetDriverVersion(): return "580.159.04"
def nvmlSystemGetNVMLVersion(): return b"13.580.159.04\\0\\0"
def nvmlDeviceGetCount(): return 3
def nvmlDeviceGetHandleByIndex(index):
    if MODE == "hang1" and index == 1: time.sleep(60)
    if MODE == "lost1" and index == 1: raise NVMLError(15)
    return index
def nvmlDeviceGetName(handle): return "NVIDIA H200"
def nvmlDeviceGetEccMode(handle): return [1, 1]
def nvmlDeviceGetTemperature(handle, sensor): return 30 + handle
def nvmlDeviceGetPowerUsage(handle): raise NVMLError(3)
def nvmlDeviceGetMemoryInfo(handle): raise TypeError("the binding trips")
def nvmlDeviceGetFieldValues(handle, ids): return [_Value() for _ in ids]
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pynvml.py").write_text(BINDING)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path


def read(mode: str, monkeypatch: pytest.MonkeyPatch, deadline: float = 20.0) -> dump.Dump:
    monkeypatch.setenv("FAKE_NVML", mode)
    record = collect.collect(deadline)
    assert record.nvml is not None
    json.loads(record.dump())
    return dump.parse(record.nvml, "fake")


def test_each_getter_gives_its_value_or_its_error(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = read("well", monkeypatch)
    assert (seen.init, seen.driver, seen.count, len(seen.gpus)) == (None, "580.159.04", 3, 3)
    assert seen.library == "13.580.159.04", "the mark of a byte string is taken off"
    gpu = seen.gpus[2]
    assert (gpu.name, gpu.number("temp"), gpu.numbers("nvmlDeviceGetEccMode")) == ("NVIDIA H200", 32, (1, 1))
    assert gpu.number("nvmlDeviceGetPowerUsage") == Gap(3, "said by the fake")
    assert gpu.by_field("GET_GPU_RECOVERY_ACTION") == 0
    missing, tripped = gpu.number("tempV"), gpu.struct("nvmlDeviceGetMemoryInfo")
    assert isinstance(missing, Gap)
    assert missing.absent
    assert isinstance(tripped, Gap)
    assert not tripped.absent


def test_a_library_that_refuses_is_kept_with_its_code(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read("mismatch", monkeypatch).init == Gap(18, "said by the fake")


def test_a_gpu_without_handle_leaves_the_others_readable(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = read("lost1", monkeypatch)
    assert [gpu.handle and gpu.handle.code for gpu in seen.gpus] == [None, 15, None]


def test_a_hanging_driver_is_abandoned_at_the_deadline(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start = time.monotonic()
    seen = read("hang", monkeypatch, 1.0)
    assert seen.init is not None
    assert seen.init.code == dump.TIMEOUT
    assert time.monotonic() - start < 4


def test_a_gpu_that_hangs_takes_no_other_with_it(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = read("hang1", monkeypatch, 1.5)
    assert [gpu.handle and gpu.handle.code for gpu in seen.gpus] == [None, dump.TIMEOUT, None]
    assert [seen.gpus[0].number("temp"), seen.gpus[2].number("temp")] == [30, 32]


def test_a_dying_driver_is_no_verdict(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = read("die", monkeypatch)
    assert seen.init is not None
    assert seen.init.code == dump.DIED


def test_a_foreign_package_named_pynvml_is_refused(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (fake / "pynvml.py").write_text("def nvmlInit(): pass\n")
    seen = read("well", monkeypatch)
    assert seen.init is not None
    assert seen.init.code == "ForeignBinding"


def test_a_child_that_ignores_everything_is_not_waited_for() -> None:
    stubborn = "import signal, time; signal.signal(15, 1); print('here', flush=True); time.sleep(60)"
    start = time.monotonic()
    ended = child.run([sys.executable, "-c", stubborn], 1.0)
    assert time.monotonic() - start < 3
    assert (ended.timed_out, ended.stdout, ended.code) == (True, b"here\n", None)


def test_a_child_is_killed_with_its_children(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    nested = f"import os, time; os.fork() or open({str(note)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    child.run([sys.executable, "-c", nested], 1.0)
    pid = int(note.read_text())
    end = time.monotonic() + 5
    while time.monotonic() < end:
        try:
            os.kill(pid, 0)
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return
        if state == "Z":
            return
        time.sleep(0.02)
    pytest.fail(f"{pid} still runs")


def test_a_child_that_floods_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "OUTPUT_LIMIT", 1 << 20)
    flood = "import sys\nwhile True: sys.stdout.write('x' * 65536)"
    start = time.monotonic()
    ended = child.run([sys.executable, "-c", flood], 30.0)
    assert ended.timed_out
    assert time.monotonic() - start < 15
    assert len(ended.stdout) < 2 << 20


def test_a_child_is_fed_and_its_exit_code_kept() -> None:
    echo = "import sys; sys.stdout.write(str(len(sys.stdin.buffer.read()))); sys.exit(7)"
    ended = child.run([sys.executable, "-c", echo], 20.0, b"x" * 300_000)
    assert (ended.stdout, ended.code) == (b"300000", 7)
    deaf = child.run([sys.executable, "-c", "raise SystemExit(3)"], 20.0, b"x" * 3_000_000)
    assert deaf.code == 3
