"""The recorded runs that may lie beside the checkout: every row of their index gets its conclusion."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from checks.model import Report
from checks.serving import record, saved
from checks.serving.report import report

# name: (verdict, causes that share rank 1 or none, texts that must stand in the findings)
EXPECTED: dict[str, tuple[str, set[str], tuple[str, ...]]] = {
    "off": ("pass", set(), ("speculation off",)),
    "off_eager": ("warn", {"graphs_off"}, ("CUDA graphs are off",)),
    "right": ("pass", set(), ("acceptance length 3.96",)),
    "ids_unshifted": ("warn", {"one_early"}, ("one layer early", "acceptance length 3.61")),
    "ids_early2": ("fail", {"layer_ids"}, ("layers captured [0, 4, 8]", "acceptance length 2.50")),
    "ids_reversed": ("pass", set(), ("another order",)),
    "ids_ends": ("fail", {"layer_ids"}, ("layers captured [0, 6, 12]", "weak, not dead")),
    "stale_compile_cache": (
        "warn",
        {"compile_cache"},
        ("if the ids were edited", "clear it and measure again"),
    ),
    "theta_missing": ("fail", {"rope"}, ("no rope_theta, so it silently is 10000", "cliff")),
    "theta_1e5": ("fail", {"rope"}, ("cliff",)),
    "theta_1e8": ("fail", {"rope"}, ("cliff",)),
    "mask_unused": ("fail", {"mask_token", "rope"}, ("garbage drafter",)),
    "mask_eot": ("fail", {"mask_token"}, ("garbage drafter", "mask id 0 is the target's end-of-text token")),
    "random": ("fail", {"weights"}, ("dead drafter", "nothing in the drafter's config contradicts itself")),
    "k1": ("warn", {"k_too_small"}, ("position 0 accepts 0.84, so the drafter is healthy",)),
    "k3": ("warn", {"k_too_small"}, ()),
    "k15": ("warn", {"k_too_large"}, ("positions from 7 on are never accepted",)),
    "vocab_smaller": ("fail", {"vocab"}, ("vocab_size 3000",)),
    "missing_fc": (
        "fail",
        {"tensors"},
        ("dead drafter", "not knowable from this record: the drafter's tensor list"),
    ),
    "missing_hidden_norm": ("pass", set(), ("not knowable from this record: the drafter's tensor list",)),
    "ngram": ("pass", set(), ("not comparable",)),
    "draft_model": ("warn", {"draft_cost"}, ("acceptance length 2.44", "a net loss, about 0.41x")),
    "off_cpu_starved": (
        "warn",
        {"starved_cpu"},
        ("speculation off", "5.7 ms per token", "infrastructure: starved CPU"),
    ),
    "right_cpu_starved": (
        "warn",
        {"starved_cpu"},
        ("acceptance length 3.97", "17.9 ms per draft step", "infrastructure: starved CPU"),
    ),
    "fail_mask_missing": (
        "fail",
        {"mask_token"},
        ("For parallel drafting, the draft model config must have",),
    ),
    "fail_ids_out_of_range": (
        "fail",
        {"layer_count"},
        ("mat1 and mat2 shapes cannot be multiplied", "/health answered 200"),
    ),
    "fail_vocab_missing": ("fail", {"vocab"}, ("no vocab_size, so it silently is 151936",)),
    "fail_mask_out_of_vocab": (
        "fail",
        {"mask_token"},
        ("device-side assert", "mask_token_id 4100 is not below"),
    ),
}

AGAINST: dict[tuple[str, str], tuple[str, set[str]]] = {
    ("right_cpu_starved", "right"): ("fail", {"starved_cpu"}),
    ("right_cpu_starved", "off"): ("fail", {"starved_cpu"}),
    ("off_cpu_starved", "off"): ("fail", {"starved_cpu"}),
    ("off_eager", "off"): ("fail", {"graphs_off"}),
    ("right", "off"): ("pass", set()),
    ("draft_model", "off"): ("warn", {"draft_cost"}),
    ("k1", "off"): ("warn", {"k_too_small"}),
    ("k3", "off"): ("warn", {"k_too_small"}),
    ("stale_compile_cache", "ids_unshifted"): ("warn", {"compile_cache"}),
    ("ids_unshifted", "right"): ("warn", {"one_early"}),
    ("mask_unused", "right"): ("fail", {"mask_token"}),
}


@pytest.fixture(scope="session")
def runs(shared: Path) -> Path:
    folder = shared / "fixtures" / "spec"
    if not folder.is_dir():
        pytest.skip("no recorded runs beside this checkout")
    return folder


def _ranked_first(found: Report) -> set[str]:
    return {cause["id"] for cause in found.facts["diagnosis"]["causes"] if cause["rank"] == 1}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_recorded_run_gets_the_conclusion_of_its_index(runs: Path, name: str) -> None:
    verdict, first, says = EXPECTED[name]
    found = report(record.load(str(runs / name)), with_diagnosis=True)
    text = " ".join(finding.message for finding in found.findings)
    assert found.verdict.value == verdict, text
    assert _ranked_first(found) == first, found.facts["diagnosis"]
    assert all(part in text for part in says), text


def test_no_row_of_the_index_is_left_out(runs: Path) -> None:
    rows = (runs / "INDEX.tsv").read_text().splitlines()[1:]
    assert {row.partition(".")[0] for row in rows} == set(EXPECTED)


@pytest.mark.parametrize(("name", "baseline"), AGAINST)
def test_a_recorded_run_against_another(runs: Path, name: str, baseline: str) -> None:
    verdict, first = AGAINST[name, baseline]
    found = report(record.load(str(runs / name)), (saved.load(str(runs / baseline)),), with_diagnosis=True)
    assert found.verdict.value == verdict, found.facts["diagnosis"]
    assert _ranked_first(found) == first, found.facts["diagnosis"]


@pytest.mark.parametrize(
    ("name", "numbers"),
    [("right", (3.96, 866, 4.6)), ("k1", (1.84, 399, 4.6)), ("mask_eot", (1.10, 244, 4.5))],
)
def test_the_numbers_are_those_of_the_index(
    runs: Path, name: str, numbers: tuple[float, float, float]
) -> None:
    facts: dict[str, Any] = report(record.load(str(runs / name))).facts
    assert facts["acceptance"]["length"] == pytest.approx(numbers[0], abs=0.01)
    assert facts["speed"]["tok_s"] == pytest.approx(numbers[1], rel=0.01)
    assert facts["speed"]["ms_per_step"] == pytest.approx(numbers[2], abs=0.15)
