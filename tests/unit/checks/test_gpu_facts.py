"""What ``provcheck gpus --json`` tells other programs of each GPU: its memory, and who holds it."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from checks.cli import main
from provision.data import demo
from provision.stack.gates import Gpus

PAIR = json.loads(demo.record().read_text())


def facts(capsys: pytest.CaptureFixture[str], tmp_path: Path, record: dict[str, Any]) -> dict[str, Any]:
    path = tmp_path / "record.json"
    path.write_text(json.dumps(record))
    main(["gpus", "--replay", str(path), "--json"])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)["facts"]
    return found


def test_idle_gpus_have_their_memory_and_nobody(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    found = facts(capsys, tmp_path, PAIR)
    for gpu in found["gpus"]:
        assert gpu["memory"]["total"] == gpu["memory"]["free"] + gpu["memory"]["used"] > 40 << 30
        assert gpu["held_by"] == []
    assert Gpus(green=True, facts=found).in_use is None


def test_who_is_on_a_gpu_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    record = copy.deepcopy(PAIR)
    record["nvml"]["devices"][1]["nvmlDeviceGetComputeRunningProcesses"] = [
        {"pid": 4711, "usedGpuMemory": 1 << 30, "name": "vllm"}
    ]
    found = facts(capsys, tmp_path, record)
    assert found["gpus"][1]["held_by"] == ["process 4711 vllm (compute, 1024 MiB)"]
    assert Gpus(green=True, facts=found).in_use == "gpu1 is in use: process 4711 vllm (compute, 1024 MiB)"


def test_what_nvml_does_not_tell_is_not_told_as_free(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    record = copy.deepcopy(PAIR)
    lost = {"err": 15, "cls": "NVMLError_GpuIsLost", "msg": "GPU is lost"}
    device = record["nvml"]["devices"][0]
    for key in ("memv2", "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetComputeRunningProcesses"):
        if key in device:
            device[key] = lost
    found = facts(capsys, tmp_path, record)
    assert (found["gpus"][0]["memory"], found["gpus"][0]["held_by"]) == (None, None)
    assert Gpus(green=True, facts=found).in_use == "whether the GPUs are in use is not known"
    assert Gpus(green=True).in_use == "which GPUs there are is not known"
