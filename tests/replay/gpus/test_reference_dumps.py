"""Dumps of real and mock NVML libraries that may lie beside the checkout, held against their index.

Per dump: the whole list of findings that are not green. Everything else must be pass or skip, and nothing may skip
that the index calls a pass.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from checks.cli import main
from checks.gpus.judge import GPU_RULES

EIGHT = range(8)


def on(gpus: object, identity: str, status: str) -> dict[tuple[str, str], str]:
    assert isinstance(gpus, (range, tuple))
    return {(identity, f"gpu{gpu}"): status for gpu in gpus}


LOST = {
    **{(rule.id, "gpu3"): "unknown" for rule in GPU_RULES if rule.id not in ("gpu.lost", "gpu.growth")},
    ("pcie.p2p", "pair 0-3"): "unknown",
    ("pcie.p2p", "pair 1-3"): "unknown",
}

# dump, expected GPUs, exit code, findings that are not green, checks that must pass on every other GPU
CASES = {
    "nvml/healthy_8xH100.json": (
        8,
        0,
        {},
        "gpu.ecc gpu.row_remap gpu.pcie_width nvlink.state fabric.state gpu.throttle",
    ),
    "nvml/healthy_8xa100.json": (
        8,
        0,
        on(EIGHT, "gpu.gsp", "warn"),
        "gpu.ecc gpu.row_remap gpu.pcie_width nvlink.state gpu.throttle",
    ),
    "nvml/healthy_8xl40s.json": (8, 0, {}, "gpu.ecc gpu.row_remap gpu.pcie_width gpu.throttle"),
    "nvml/healthy_8xb200.json": (
        8,
        1,
        {
            ("driver.floor", "host"): "fail",
            **on(EIGHT, "nvlink.state", "fail"),
            **on(EIGHT, "fabric.state", "unknown"),
        },
        "gpu.ecc gpu.row_remap gpu.pcie_width gpu.throttle gpu.power_limit",
    ),
    "nvml/gpu_lost_idx3.json": (
        8,
        1,
        {("gpu.lost", "gpu3"): "fail", **LOST},
        "gpu.lost gpu.ecc nvlink.state",
    ),
    "nvml/ecc_disabled_idx0.json": (8, 1, on((0,), "gpu.ecc", "fail"), "gpu.ecc"),
    "nvml/ecc_uncorrectable_idx2.json": (
        8,
        1,
        {**on((2,), "gpu.ecc", "fail"), **on((2,), "gpu.row_remap", "fail")},
        "gpu.ecc gpu.row_remap",
    ),
    "nvml/remap_pending_idx1_failure_idx6.json": (
        8,
        1,
        on((1, 6), "gpu.row_remap", "fail"),
        "gpu.row_remap gpu.ecc",
    ),
    "nvml/pcie_gen1_idle_x16_all.json": (8, 0, {}, "gpu.pcie_width"),
    "nvml/pcie_x8_gen1_idx5.json": (8, 1, on((5,), "gpu.pcie_width", "fail"), "gpu.pcie_width"),
    "nvml/hw_thermal_slowdown_idx4.json": (
        8,
        1,
        {**on((4,), "gpu.throttle", "fail"), **on((4,), "gpu.temperature", "fail")},
        "gpu.throttle gpu.temperature",
    ),
    "nvml/power_cap_400W_idx0.json": (
        8,
        0,
        {**on((0,), "gpu.power_limit", "warn"), **on((0,), "gpu.throttle", "warn")},
        "gpu.power_limit gpu.throttle",
    ),
    "nvml/fabric_not_started.json": (8, 1, on(EIGHT, "fabric.state", "fail"), "nvlink.state"),
    "real_h200_x1/nvml_dump.json": (
        1,
        0,
        {},
        "gpu.ecc gpu.pcie_width gpu.row_remap gpu.power_limit gpu.throttle",
    ),
    "real_h200_x2/nvml_dump.json": (
        2,
        0,
        {},
        "gpu.ecc gpu.pcie_width gpu.row_remap nvlink.state fabric.state",
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
