"""This machine's own GPUs through the real commands. Only by name (``./test gpu``), where NVIDIA GPUs are; else red.

The same and more (a container, faults) on a machine without network: scripts/gpu-session."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.gpu.report import unmet

GPUS = len(list(Path("/proc/driver/nvidia/gpus").glob("*")))


def provcheck(*words: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "checks", *words, "--json"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def test_there_is_a_gpu_to_look_at() -> None:
    assert GPUS, "no NVIDIA GPU is here (/proc/driver/nvidia/gpus): this tier runs on a machine that has one"


@pytest.mark.parametrize(
    "command", [["gpus", "--expect", str(GPUS)], ["load"], ["nccl"]], ids=lambda words: words[0]
)
def test_the_gpus_of_this_machine_are_well(command: list[str]) -> None:
    report = provcheck(*command)
    assert not unmet(report, ["verdict=pass,warn,skip"]), report["findings"]


def test_a_gpu_too_many_expected_is_a_failure() -> None:
    assert not unmet(provcheck("gpus", "--expect", str(GPUS + 1)), ["verdict=fail", "gpu.count=fail"])


def test_a_record_of_this_machine_says_the_same_as_the_machine(tmp_path: Path) -> None:
    live = provcheck("gpus", "--expect", str(GPUS), "--record", str(tmp_path / "record.json"))
    again = provcheck("gpus", "--expect", str(GPUS), "--replay", str(tmp_path / "record.json"))
    assert [(f["id"], f["subject"], f["status"]) for f in live["findings"]] == [
        (f["id"], f["subject"], f["status"]) for f in again["findings"]
    ]
