"""A person can act on a finding: the command aims at one GPU, the board has a name, the options are real ones."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from checks.gpus import which
from checks.gpus.report import judge_record
from checks.model import Finding, Report, Status
from checks.record import Record
from checks.report import render

CHANGES = re.compile(
    r"nvidia-smi (?!-i\b|mig -i\b)(?:[^,;()'\"]*\s)?"
    r"(--gpu-reset|-r\b|--ecc-config\S*|-e \d|-pl\b|-pm\b|-c [A-Z]|-mig \d|--reset-\S+)"
)
MEANT_FOR_ALL = "without -i"


def texts(root: Path) -> Iterator[tuple[Path, str]]:
    """Every text in the program that a person may be shown."""
    for path in sorted((root / "checks").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield path, node.value


def test_no_advice_aims_a_change_at_every_gpu_of_the_host(repo_root: Path) -> None:
    loose = [
        f"{path.name}: {text}"
        for path, text in texts(repo_root)
        if (found := CHANGES.search(text))
        and not text[found.end() :].startswith(" -i ")
        and MEANT_FOR_ALL not in text
        and path.name != "symptoms.py"
    ]
    assert loose == []


def test_a_power_limit_is_given_in_watts(repo_root: Path) -> None:
    assert [text for _, text in texts(repo_root) if re.search(r"-pl (?!\d|WATTS|$)\S", text)] == []
    assert "-pl DEFAULT" not in (repo_root / "docs/findings.md").read_text()


def recovery(action: int) -> dict[str, Any]:
    field = {"ret": 0, "type": 1, "ull": action, "ui": action}
    return {"fields": {"NVML_FI_DEV_GET_GPU_RECOVERY_ACTION": field}}


SICK: dict[str, tuple[dict[str, Any], str]] = {
    "gpu.row_remap": ({"nvmlDeviceGetRemappedRows": [0, 2, 1, 0]}, "--gpu-reset"),
    "gpu.retired_pages": (
        {"nvmlDeviceGetRetiredPagesPendingStatus": 1, "retired_dbe": [1], "retired_sbe": []},
        "--gpu-reset",
    ),
    "gpu.recovery": (recovery(1), "--gpu-reset"),
    "gpu.ecc": ({"nvmlDeviceGetEccMode": [0, 0]}, "--ecc-config=1"),
}


@pytest.mark.parametrize("identity", SICK)
def test_a_fix_aims_at_the_gpu_that_is_not_well(
    identity: str, healthy: Callable[..., Any], judged: Callable[..., Any]
) -> None:
    data = healthy(4)
    change, option = SICK[identity]
    data["devices"][3].update(change)
    found = judged(data)[identity, "gpu3"]
    assert found.status is Status.FAIL
    assert f"nvidia-smi -i 3 {option} (3 is 0000:13:00.0)" in found.fix


def test_a_board_to_be_replaced_is_named_by_address_and_uuid(healthy: Callable[..., Any]) -> None:
    data = healthy(2)
    data["devices"][1]["nvmlDeviceGetRemappedRows"] = [0, 9, 0, 1]
    report = judge_record(Record(nvml=data), 2, replayed=True, name="dump")
    by = {(one.id, one.subject): one for one in report.findings}
    assert by["gpu.row_remap", "gpu1"].fix == (
        "take the GPU out of service and have the board replaced"
        " (gpu1 is 0000:11:00.0, GPU-00000000-0000-0000-0000-000000000001)"
    )


@pytest.mark.parametrize(
    "fix", ["reset it", "watch; gpu.row_remap says whether the rows were replaced", None]
)
def test_another_fix_stays_as_it_is(fix: str | None) -> None:
    one = Finding("gpu.ecc", Status.FAIL, "gpu0", "m", fix=fix)
    assert which.with_board([one], [{"index": 0, "pci": "0000:10:00.0", "uuid": "GPU-1"}]) == (one,)
    bad = Finding("gpu.ecc", Status.FAIL, "gpu0", "m", fix="replace it")
    assert which.with_board([bad], [{"index": 0, "pci": None, "uuid": None}]) == (bad,), (
        "unknown, so not told"
    )


def test_a_gpu_is_headed_by_its_place_on_the_bus(healthy: Callable[..., Any]) -> None:
    data = healthy(2)
    data["devices"][1]["ecc_unc_vol"] = 3
    report = judge_record(Record(nvml=data), 2, replayed=True, name="dump")
    lines = render(report, "table").splitlines()
    assert "gpu1  0000:11:00.0" in lines
    joined = Report("all", report.findings, facts={"gpus": {"verdict": "fail", **report.facts}})
    assert "gpu1  0000:11:00.0" in render(joined, "table").splitlines()
    nowhere = Report("gpus", report.findings, facts={"gpus": [{"index": 1, "pci": None}]})
    assert "gpu1" in render(nowhere, "table").splitlines()
