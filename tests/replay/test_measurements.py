"""docs/measurements.md says what the committed records say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from checks.cli import main
from tests.replay.rows import rows

HERE = Path(__file__).parent
PAGE = (HERE.parents[1] / "docs" / "measurements.md").read_text()
TABLES = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if "|" in line]
RATIOS = [row for row in TABLES if row[-1].replace(".", "").isdigit()]
RECORDED = [row for row in RATIOS if len(row) == 6]
FAULTS = {
    "h200_in_lxc_with_shm_of_1_mib": "/dev/shm",
    "h200_in_lxc_with_library_of_535": "535.261.03",
    "h200_in_lxc_without_uvm": "/dev/nvidia-uvm",
    "h200_held_by_another": "another process",
    "h200_in_lxc_held_from_outside": "the same, seen",
}


def value(identity: str, name: str, capsys: pytest.CaptureFixture[str]) -> float:
    """What the record, judged now, has for a finding."""
    command = identity.partition(".")[0]
    main([command, "--replay", str(HERE / command / f"{name}.json"), "--json"])
    (finding,) = [f for f in json.loads(capsys.readouterr().out)["findings"] if f["id"] == identity]
    return float(finding["value"])


@pytest.mark.parametrize("row", RATIOS, ids=lambda row: f"{row[0]} {row[1]}")
def test_a_ratio_is_that_of_the_figures_beside_it(row: list[str]) -> None:
    measured, that, ratio = float(row[-4]), float(row[-2]), float(row[-1])
    assert ratio == pytest.approx(measured / that, abs=0.0051)


@pytest.mark.parametrize("row", RECORDED, ids=lambda row: f"{row[0]} {row[1]}")
def test_a_figure_is_the_record_s(row: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    identity = row[0].split("`")[1]
    assert float(row[2]) == value(identity, row[1], capsys)
    if row[3] == "bare":
        assert float(row[4]) == value(identity, "h200_bare", capsys)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_called_what_its_records_call_it(name: str) -> None:
    (said,) = [row for row in TABLES if row[0].startswith(FAULTS[name]) or FAULTS[name] in row[0]]
    for column, command in enumerate(("gpus", "load", "nccl"), 1):
        indexed = [row[3] for row in rows(HERE / command) if row[0] == name]
        named = [part.split("`")[1:] for part in said[column].split(", ") if part.startswith("`")]
        assert bool(said[column]) == bool(indexed)
        for identity, rest in named:
            status = rest.split()[0]
            assert any(w.startswith(f"{identity}@") and w.endswith(f"={status}") for w in indexed[0].split())


def test_the_page_has_all_of_these_tables() -> None:
    assert (len(RECORDED), len(RATIOS)) == (17, 55)
