"""What was measured counts again only for the very place and only for a while; a red one is kept as proof."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from provision.stack import measured
from provision.stack.measured import KEEPING, holds, kept, path_of, place_of
from tests.unit.gates.conftest import facts, gpu

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
PLACE = place_of(facts(gpu(0), gpu(1)), "a" * 64, "boot-1\n", {"NCCL_SOCKET_IFNAME": "lo"})
REPORT: dict[str, Any] = {
    "schema": "provcheck/1",
    "verdict": "pass",
    "evidence": "live",
    "findings": [],
    "facts": {},
}


def text(report: dict[str, Any] = REPORT, when: datetime = NOW) -> str:
    found = kept(report, PLACE, when.isoformat(), "run-1")
    assert found is not None
    return found


def test_a_green_measurement_of_this_place_holds_and_says_when_it_was_made() -> None:
    said = holds(text(), "nccl", PLACE, NOW + timedelta(days=1))
    assert said == "pass, as measured at 2026-11-30T12:00:00+00:00 in run run-1"


@pytest.mark.parametrize(
    "other",
    [
        {"driver": "580.0.1"},
        {"gpus": ("GPU-0",)},
        {"gpus": ("GPU-0", "GPU-7")},
        {"provcheck": "b" * 64},
        {"boot": "boot-2"},
        {"variables": {}},
        {"driver": None},
        {"gpus": None},
        {"boot": None},
    ],
)
def test_it_holds_for_no_other_place_and_for_none_that_is_not_known(other: dict[str, Any]) -> None:
    assert holds(text(), "load", replace(PLACE, **other), NOW) is None


@pytest.mark.parametrize("row", KEEPING, ids=lambda row: row.gate)
def test_it_holds_for_so_many_days_and_not_from_the_future(row: measured.Keeping) -> None:
    last = NOW + timedelta(days=row.days)
    assert holds(text(), row.gate, PLACE, last)
    assert holds(text(), row.gate, PLACE, last + timedelta(seconds=1)) is None
    assert holds(text(), row.gate, PLACE, NOW - timedelta(seconds=1)) is None
    assert row.source
    assert row.why


@pytest.mark.parametrize(
    "damaged",
    [
        None,
        "",
        "{cut",
        "[]",
        "{}",
        json.dumps(REPORT),
        text(REPORT | {"verdict": "fail"}),
        text(REPORT | {"verdict": "unknown"}),
        text(REPORT | {"evidence": "replayed"}),
        text(REPORT | {"schema": "other/1"}),
        text().replace("2026-11-30T12:00:00+00:00", "noon"),
        text().replace("2026-11-30T12:00:00+00:00", "2026-11-30T12:00:00"),
        "[" * 100_000,
    ],
)
def test_what_is_red_replayed_or_cut_off_never_counts(damaged: str | None) -> None:
    assert holds(damaged, "nccl", PLACE, NOW) is None


def test_nothing_is_kept_for_a_place_that_is_not_known() -> None:
    assert kept(REPORT, replace(PLACE, driver=None), "x", "y") is None
    assert place_of({}, "a", "b", {}).key is None
    assert place_of(facts(gpu(0), gpu(1) | {"uuid": None}), "a", "b", {}).key is None
    assert place_of(facts(), "a", "b", {}).key is None


def test_what_switches_a_way_off_is_measured_apart_so_that_the_proof_for_it_stays() -> None:
    assert path_of("nccl", {"NCCL_SOCKET_IFNAME": "lo"}) == "/var/lib/kpro/measured/nccl.json"
    assert path_of("nccl", {"NCCL_P2P_DISABLE": "1"}) == "/var/lib/kpro/measured/nccl-service.json"
