"""Verdicts rest on ratios: more of the same traffic changes nothing, and sampling noise does not raise alarms."""

from __future__ import annotations

import random
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.serving.evidence import gather
from checks.serving.report import report
from checks.serving.shape import Shape, shape_of

SCALED = (
    "right",
    "mask_unused",
    "theta_missing",
    "theta_1e5",
    "k15",
    "missing_fc",
    "ids_ends",
    "thread_window",
    "healthy_mtp",
)


def _times(page: str, factor: int) -> str:
    lines = []
    for line in page.splitlines():
        name, _, value = line.rpartition(" ")
        lines.append(line if line.startswith("#") else f"{name} {float(value) * factor}")
    return "\n".join(lines) + "\n"


@given(name=st.sampled_from(SCALED), factor=st.integers(1, 5000))
def test_more_of_the_same_traffic_never_changes_the_verdict(made: ModuleType, name: str, factor: int) -> None:
    case = next(case for case in made.CASES if case.name == name)
    once = report(case.seen, case.baselines, with_diagnosis=True)
    often = report(
        replace(case.seen, after=_times(case.seen.after, factor)), case.baselines, with_diagnosis=True
    )
    assert often.verdict is once.verdict
    ranks = [
        [(cause["id"], cause["rank"]) for cause in found.facts["diagnosis"]["causes"]]
        for found in (once, often)
    ]
    assert ranks[0] == ranks[1]


@given(name=st.sampled_from(SCALED), start=st.integers(0, 10**7))
def test_a_window_between_two_scrapes_is_judged_as_the_same_counts_since_start(
    made: ModuleType, name: str, start: int
) -> None:
    case = next(case for case in made.CASES if case.name == name)
    before = "\n".join(
        line if line.startswith("#") else f"{line.rpartition(' ')[0]} {start}"
        for line in case.seen.after.splitlines()
    )
    after = "\n".join(
        (
            line
            if line.startswith("#")
            else f"{line.rpartition(' ')[0]} {float(line.rpartition(' ')[2]) + start}"
        )
        for line in case.seen.after.splitlines()
    )
    window = gather(replace(case.seen, before=before, after=after))
    whole = gather(case.seen)
    assert window.acceptance is not None
    assert whole.acceptance is not None
    assert window.acceptance.length == pytest.approx(whole.acceptance.length, rel=1e-6)
    assert window.curve is not None
    assert whole.curve is not None
    assert window.curve.shape is whole.curve.shape


def _sampled(positions: tuple[float, ...], drafts: int, seed: int) -> tuple[float, ...]:
    """The curve as ``drafts`` random drafts would show it: each position follows only an accepted one."""
    draw = random.Random(seed)
    counts = [0] * len(positions)
    for _ in range(drafts):
        before = 1.0
        for at, share in enumerate(positions):
            if draw.random() >= (share / before if before else 0.0):
                break
            counts[at] += 1
            before = share
    return tuple(count / drafts for count in counts)


def _share_right(positions: tuple[float, ...], want: set[Shape], drafts: int, runs: int = 200) -> float:
    hits = 0
    for seed in range(runs):
        curve = _sampled(positions, drafts, seed)
        hits += shape_of(curve, 1 + sum(curve)).shape in want
    return hits / runs


@pytest.mark.parametrize(
    ("length", "k"), [(2.26, 3), (2.6, 3), (2.5, 7), (2.8, 5), (3.4, 3), (3.96, 7), (4.24, 15), (6.5, 15)]
)
@pytest.mark.parametrize("drafts", [200, 1000])
def test_a_healthy_run_of_few_drafts_raises_no_alarm(
    made: ModuleType, length: float, k: int, drafts: int
) -> None:
    assert _share_right(made.even(length, k), {Shape.HEALTHY}, drafts) >= 0.985


@pytest.mark.parametrize(
    ("positions", "want"),
    [
        ((0.089, 0.008, 0.004, 0, 0, 0, 0), Shape.DEAD),
        ((0.037, 0.001, 0, 0, 0, 0, 0), Shape.DEAD),
        ((0.45, 0.14, 0.02, 0.001, 0, 0, 0), Shape.CLIFF),
        ((0.76, 0.46, 0.20, 0.04, 0.02, 0.01, 0), Shape.CLIFF),
        ((0.80, 0.47, 0.11, 0.02, 0, 0, 0), Shape.CLIFF),
        ((0.67, 0.15, 0.01, 0, 0, 0, 0), Shape.CLIFF),
        ((0.6, 0.385, 0.215, 0.108, 0.062, *(0.0,) * 10), Shape.CUT),
        ((0.76, 0.51, 0.39, 0.33, 0.25, 0.18, 0.12, 0.04, 0.003, *(0.0,) * 6), Shape.CUT),
        ((0.28, 0.08, 0.02, 0.01, 0, 0, 0), Shape.WEAK),
    ],
)
def test_a_fault_keeps_its_shape_in_a_sample_of_500_drafts(positions: tuple[float, ...], want: Shape) -> None:
    assert _share_right(positions, {want}, 500) >= 0.93


def test_fewer_than_200_drafts_are_unknown_and_never_green(made: ModuleType) -> None:
    few: Any = made.Observation(
        after=made.page(made.HEALTHY, drafts=199), log=made.vllm_log(), drafter_config=made.CONFIG
    )
    enough = replace(few, after=made.page(made.HEALTHY, drafts=200))
    assert report(few).exit_code() == 3
    assert report(enough).exit_code() == 0


def test_a_passive_look_judges_what_little_traffic_brought(made: ModuleType) -> None:
    seen: Any = made.Observation(after=made.page((0.09, 0.01, 0, 0, 0, 0, 0), drafts=100), passive=True)
    assert report(seen).exit_code() == 1
    idle = replace(seen, after=made.page((0.0,) * 7, drafts=0))
    assert {f.id: f.status.value for f in report(idle).findings}["serve.acceptance"] == "skip"
