"""Dumps of real and mock NVML libraries that may lie beside the checkout, held against their index.

Per dump: the whole list of findings that are not green. Everything else must be pass or skip, and nothing may skip
that the index calls a pass.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from checks.cli import main
from checks.gpus import dump
from checks.gpus.judge import GPU_RULES, judge
from checks.gpus.node import Node
from checks.gpus.rule import Scene

EIGHT = range(8)


def on(gpus: object, identity: str, status: str) -> dict[tuple[str, str], str]:
    assert isinstance(gpus, (range, tuple))
    return {(identity, f"gpu{gpu}"): status for gpu in gpus}


LOST = {
    **{(rule.id, "gpu3"): "unknown" for rule in GPU_RULES if rule.id not in ("gpu.lost", "gpu.growth")},
    ("pcie.p2p", "pair 0-3"): "unknown",
    ("pcie.p2p", "pair 1-3"): "unknown",
}

MODES = (
    "gpu.vbios gpu.identity gpu.lost gpu.pcie_generation gpu.pcie_replay gpu.bar1 gpu.numa gpu.clocks gpu.persistence "
    "gpu.mig gpu.compute_mode gpu.memory gpu.processes gpu.temperature gpu.power_limit "
)
LINKED = "nvlink.state nvlink.symmetry nvlink.errors pcie.p2p "
"""What must pass on every reference machine whose fault lies elsewhere; LINKED where there are NVLinks in use."""

# dump, expected GPUs, exit code, findings that are not green, checks that must pass on every other GPU
CASES = {
    "nvml/healthy_8xH100.json": (
        8,
        0,
        {},
        MODES
        + LINKED
        + "gpu.ecc gpu.row_remap gpu.pcie_width fabric.state gpu.throttle gpu.gsp gpu.retired_pages",
    ),
    "nvml/healthy_8xa100.json": (
        8,
        0,
        on(EIGHT, "gpu.gsp", "warn"),
        MODES + LINKED + "gpu.ecc gpu.row_remap gpu.pcie_width gpu.throttle gpu.retired_pages",
    ),
    "nvml/healthy_8xl40s.json": (
        8,
        0,
        {},
        MODES + "gpu.ecc gpu.row_remap gpu.pcie_width gpu.throttle gpu.gsp",
    ),
    "nvml/healthy_8xb200.json": (
        8,
        1,
        {
            ("driver.floor", "host"): "fail",
            **on(EIGHT, "nvlink.state", "fail"),
            **on(EIGHT, "fabric.state", "unknown"),
        },
        MODES + "gpu.ecc gpu.row_remap gpu.pcie_width gpu.throttle",
    ),
    "nvml/gpu_lost_idx3.json": (
        8,
        1,
        {("gpu.lost", "gpu3"): "fail", **LOST},
        MODES + LINKED + "gpu.ecc gpu.gsp",
    ),
    "nvml/ecc_disabled_idx0.json": (8, 1, on((0,), "gpu.ecc", "fail"), MODES + LINKED + "gpu.ecc"),
    "nvml/ecc_uncorrectable_idx2.json": (
        8,
        1,
        {**on((2,), "gpu.ecc", "fail"), **on((2,), "gpu.row_remap", "fail")},
        MODES + LINKED + "gpu.ecc gpu.row_remap",
    ),
    "nvml/remap_pending_idx1_failure_idx6.json": (
        8,
        1,
        on((1, 6), "gpu.row_remap", "fail"),
        MODES + LINKED + "gpu.row_remap gpu.ecc",
    ),
    "nvml/pcie_gen1_idle_x16_all.json": (8, 0, {}, MODES + LINKED + "gpu.pcie_width"),
    "nvml/pcie_x8_gen1_idx5.json": (
        8,
        1,
        on((5,), "gpu.pcie_width", "fail"),
        MODES + LINKED + "gpu.pcie_width",
    ),
    "nvml/hw_thermal_slowdown_idx4.json": (
        8,
        1,
        {**on((4,), "gpu.throttle", "fail"), **on((4,), "gpu.temperature", "fail")},
        MODES + LINKED + "gpu.throttle",
    ),
    "nvml/power_cap_400W_idx0.json": (
        8,
        0,
        {**on((0,), "gpu.power_limit", "warn"), **on((0,), "gpu.throttle", "warn")},
        MODES + LINKED + "gpu.throttle",
    ),
    "nvml/fabric_not_started.json": (8, 1, on(EIGHT, "fabric.state", "fail"), MODES + LINKED),
    "real_h200_x1/nvml_dump.json": (
        1,
        0,
        {},
        MODES + "gpu.ecc gpu.pcie_width gpu.row_remap gpu.throttle gpu.gsp gpu.inforom gpu.recovery",
    ),
    "real_h200_x2/nvml_dump.json": (
        2,
        0,
        {},
        MODES + LINKED + "gpu.ecc gpu.pcie_width gpu.row_remap fabric.state gpu.gsp gpu.inforom gpu.recovery",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_reference_dump_leads_to_what_its_index_says(
    name: str, shared: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expect, code, bad, passing = CASES[name]
    path = shared / "fixtures/health" / name
    assert main(["gpus", "--replay", str(path), "--expect", str(expect), "--json"]) == code
    findings = {(f["id"], f["subject"]): f for f in json.loads(capsys.readouterr().out)["findings"]}
    seen = {key: f["status"] for key, f in findings.items() if f["status"] not in ("pass", "skip")}
    assert seen == bad
    for identity in passing.split():
        others = {f["status"] for key, f in findings.items() if key[0] == identity and key not in bad}
        assert others == {"pass"}, identity


def test_pending_and_failed_remapping_ask_for_different_acts(
    shared: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = shared / "fixtures/health/nvml/remap_pending_idx1_failure_idx6.json"
    main(["gpus", "--replay", str(path), "--json"])
    findings = {(f["id"], f["subject"]): f for f in json.loads(capsys.readouterr().out)["findings"]}
    assert "reset" in findings["gpu.row_remap", "gpu1"]["fix"]
    assert "replaced" in findings["gpu.row_remap", "gpu6"]["fix"]


@pytest.mark.parametrize("expect", [[], ["--expect", "8"]])
def test_no_library_is_unknown_throughout(
    expect: list[str], shared: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = shared / "fixtures/health/nvml/no_library.json"
    assert main(["gpus", "--replay", str(path), "--json", *expect]) == 3
    statuses = {f["status"] for f in json.loads(capsys.readouterr().out)["findings"]}
    assert statuses <= {"unknown", "skip"}


def test_every_nvml_dump_of_the_index_is_judged(shared: Path) -> None:
    lines = (shared / "fixtures/health/INDEX.tsv").read_text().splitlines()[1:]
    dumps = {line.split("\t")[0] for line in lines if line.split("\t")[0].endswith(".json")}
    assert dumps == {*CASES, "nvml/no_library.json"}


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case[0] == 8])
def test_a_reference_fault_follows_its_gpu_to_another_place(name: str, shared: Path, tmp_path: Path) -> None:
    data = json.loads((shared / "fixtures/health" / name).read_text())
    moved = {**data, "devices": data["devices"][3:] + data["devices"][:3]}
    del moved["p2p"]  # of the old dumps it holds only the pairs of the first two
    found = judge(Scene(dump.parse(moved, name), Node(), 8))
    seen = {(f.id, f.subject): f.status.value for f in found if f.status.value not in ("pass", "skip")}
    wanted = {
        (identity, f"gpu{(int(subject[3:]) - 3) % 8}" if subject.startswith("gpu") else subject): status
        for (identity, subject), status in CASES[name][2].items()
        if identity != "pcie.p2p"
    }
    assert seen == wanted


def test_two_reference_faults_in_one_machine_are_both_told(shared: Path) -> None:
    def load(name: str) -> dict[str, Any]:
        data: dict[str, Any] = json.loads((shared / "fixtures/health/nvml" / name).read_text())
        return data

    data = load("ecc_uncorrectable_idx2.json")
    data["devices"][5] = load("pcie_x8_gen1_idx5.json")["devices"][5]
    data["devices"][4] = load("hw_thermal_slowdown_idx4.json")["devices"][4]
    data["devices"][3] = load("gpu_lost_idx3.json")["devices"][3]
    found = {(f.id, f.subject): f.status.value for f in judge(Scene(dump.parse(data, "two"), Node(), 8))}
    failed = {key for key, status in found.items() if status == "fail"}
    assert {("gpu.ecc", "gpu2"), ("gpu.row_remap", "gpu2"), ("gpu.pcie_width", "gpu5")} <= failed
    assert {("gpu.throttle", "gpu4"), ("gpu.temperature", "gpu4"), ("gpu.lost", "gpu3")} <= failed
    assert {subject for _, subject in failed} == {"gpu2", "gpu3", "gpu4", "gpu5"}
