"""Every recorded and composed run is judged as it must be."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from checks.data.causes import CAUSES
from checks.serving.report import report


def test_a_run_is_judged_as_its_case_says(case: Any) -> None:
    found = report(case.seen, case.baselines, with_diagnosis=True)
    diagnosis = found.facts["diagnosis"]
    ranked = {cause["id"]: cause["rank"] for cause in diagnosis["causes"]}
    excluded = {row["id"] for row in diagnosis["excluded"]}
    text = " ".join(finding.message for finding in found.findings)
    statuses = {finding.id: finding.status.value for finding in found.findings}
    told = f"{found.verdict.value}: {diagnosis['headline']} {ranked} out {excluded}"

    assert found.verdict.value == case.verdict, told
    if case.first:
        assert {ident for ident, rank in ranked.items() if rank == 1} == set(case.first), told
    assert set(case.also) <= ranked.keys(), told
    assert set(case.out) <= excluded, told
    assert not set(case.never) & ranked.keys(), told
    assert all(part in text for part in case.says), text
    assert {ident: statuses.get(ident) for ident in case.statuses} == case.statuses, told
    if case.determined is not None:
        assert diagnosis["determined"] is case.determined, told


def test_each_cause_has_a_case_that_fires_it_and_one_that_does_not(made: ModuleType) -> None:
    cases = {case.name: case for case in made.CASES}
    for row in CAUSES:
        ranked = [
            {
                cause["id"]
                for cause in report(case.seen, case.baselines, with_diagnosis=True).facts["diagnosis"][
                    "causes"
                ]
            }
            for case in (cases[row.fires], cases[row.silent])
        ]
        assert row.id in ranked[0], f"{row.id} does not fire on {row.fires}"
        assert row.id not in ranked[1], f"{row.id} fires on {row.silent}"


def test_every_cause_says_where_it_comes_from() -> None:
    assert all(row.source and row.fix and row.title for row in CAUSES)
    assert len({row.id for row in CAUSES}) == len(CAUSES)
