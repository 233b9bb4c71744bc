"""Who is spared: a GPU in use, one of which nobody can tell, one whose user needs what is free, one under test."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from checks.load import evidence, run
from checks.load.busy import RESERVE
from checks.load.judge import judge
from checks.load.options import MIB, Options
from checks.load.turn import Turn
from checks.model import Finding
from checks.record import Record

GIB = 1 << 30
IDLE = {"used": 0, "free": 140 * GIB}
PROCESS = [{"pid": 7, "usedGpuMemory": 100 * GIB}]


def observed(
    monkeypatch: pytest.MonkeyPatch, *devices: dict[str, Any], force: bool = False
) -> tuple[list[Options], dict[str, Finding]]:
    """What the children would have been told (nothing: not loaded), and the findings on who is busy."""
    listed = [{"nvmlDeviceGetUUID": f"GPU-{n}", **device} for n, device in enumerate(devices)]
    started: list[Options] = []

    def worked(targets: object, options: Options, tell: object) -> list[Any]:
        started.append(options)
        return []

    monkeypatch.setattr(run, "_look", lambda options: {"nvmlInit": None, "devices": listed})
    monkeypatch.setattr(run, "_run", worked)
    record: Record = run.observe(Options(), None, force=force)
    found = judge(evidence.of_record(record.sections, "x"))
    return started, {finding.subject: finding for finding in found if finding.id == "load.busy"}


def test_a_gpu_of_which_nvml_does_not_tell_is_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    started, found = observed(monkeypatch, {"memv2": {"err": 4, "msg": "no permission"}})
    assert started == []
    assert found["gpu0"].status.value == "unknown"
    (options,), _ = observed(monkeypatch, {}, force=True)
    assert options.shared
    (options,), _ = observed(monkeypatch, {"memv2": IDLE})
    assert not options.shared


def test_force_spares_a_gpu_whose_user_may_need_what_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    used = {"nvmlDeviceGetComputeRunningProcesses": PROCESS}
    full = {**used, "memv2": {"used": 139 * GIB, "free": GIB}}
    started, found = observed(monkeypatch, {"memv2": IDLE}, full, force=True)
    assert started == []
    assert found["gpu1"].status.value == "unknown"
    assert "not loaded even by force: only 1024 MiB free" in found["gpu1"].message
    (options,), _ = observed(monkeypatch, {**used, "memv2": {"used": 1, "free": 40 * GIB}}, force=True)
    assert options.shared


def test_a_load_beside_others_takes_a_quarter_and_leaves_a_reserve() -> None:
    for free in (0, GIB, 2 * GIB, 100 * GIB):
        taken = Options(memory=1 << 60, shared=True).arena(free)
        assert taken <= free // 4
        assert free - taken >= min(free, RESERVE)
    assert Options(memory=1 << 60).arena(100 * GIB) == 50 * GIB
    assert Options(memory=4096 * MIB, shared=True).arena(100 * GIB) == 4096 * MIB


def test_two_tests_never_meet_on_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "0000:06:00.0").mkdir()
    first = Turn(["00000000:06:00.0", "00000000:07:00.0", "nonsense"], tmp_path)
    assert first.taken == set()
    monkeypatch.setattr(run, "Turn", lambda addresses: Turn(addresses, tmp_path))
    device = {"memv2": IDLE, "nvmlDeviceGetPciInfo": {"busId": "00000000:06:00.0"}}
    started, found = observed(monkeypatch, device)
    assert started == []
    assert found["gpu0"].status.value == "unknown"
    assert "another test of provcheck" in found["gpu0"].message
    first.close()
    started, _ = observed(monkeypatch, device)
    assert len(started) == 1


def test_the_longest_load_holds_every_step_of_eight_gpus() -> None:
    options = Options()
    steps = sum(options.allowed(step) for step in ("start", "memory", "heat", "stop"))
    assert options.longest() == 2 * options.deadline + steps + 8 * options.allowed("link")
    assert json.loads(options.dump())["shared"] is False
