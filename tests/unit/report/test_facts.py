"""What journals are told so that a report can be made: operations, findings, readings."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.serving import trial
from provision.run import told as operations
from provision.run.reports import kept_findings
from provision.run.told import Operations
from provision.stack import figures

FACTS = {
    "acceptance": {"length": 3.7, "per_position": [0.8, 0.6]},
    "speed": {"tok_s": 96.1},
    "window": {"tok_s": {"1": 96.1, "4": 81.0}, "ttft_ms": 150.0},
}


def report(**facts: Any) -> dict[str, Any]:
    return {"schema": "provcheck/1", "facts": FACTS | facts}


def test_a_reading_has_the_numbers_that_a_plot_is_made_of() -> None:
    assert trial.reading(report()) == {
        "tok_s": 96.1, "by_concurrency": {"1": 96.1, "4": 81.0}, "acceptance": 3.7, "per_position": [0.8, 0.6],
        "ttft_ms": 150.0,
    }  # fmt: skip


@pytest.mark.parametrize(
    "given_", [None, [], {}, report(speed=None), {"facts": 7}, report(speed={"tok_s": "fast"})]
)
def test_without_a_speed_there_is_no_reading(given_: Any) -> None:
    assert trial.reading(given_) is None


def test_a_reading_without_speculation_has_no_acceptance() -> None:
    found = trial.reading(report(acceptance=None, window=None))
    assert found == {"tok_s": 96.1}


def test_a_reading_goes_through_the_guest_s_record_as_it_is() -> None:
    found = trial.reading(report())
    assert figures.reading(found) == found


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=90) | st.dictionaries(st.text(), inner, max_size=4),
)


@given(values)
def test_whatever_a_guest_s_record_holds_a_reading_is_bounded_numbers(value: Any) -> None:
    given_ = {
        "tok_s": value,
        "by_concurrency": value,
        "per_position": value,
        "acceptance": value,
        "more": value,
    }
    found = figures.reading(given_) or {}
    assert set(found) <= {"tok_s", "acceptance", "ttft_ms", "by_concurrency", "per_position"}
    assert len(found.get("per_position", [])) <= 64
    assert len(found.get("by_concurrency", {})) <= 16
    assert len(repr(found)) < 4000


def test_a_kept_baseline_is_told_in_the_same_words() -> None:
    kept = '{"schema": "provcheck-baseline/1", "tok_s": 71.3, "length": 2.6, "positions": [0.72, 0.4400001]}'
    assert figures.baseline(kept) == {"tok_s": 71.3, "acceptance": 2.6, "per_position": [0.72, 0.44]}


@pytest.mark.parametrize("text", [None, "", "{", "[]", "7", '{"tok_s": "x"}'])
def test_what_is_no_baseline_is_none(text: str | None) -> None:
    assert figures.baseline(text) is None


def test_the_findings_that_were_not_pass_are_kept_with_their_numbers_the_worst_first() -> None:
    found = [
        {"status": status, "id": f"a.{status}", "value": 3, "fix": None}
        for status in ("pass", "warn", "fail")
    ]
    assert kept_findings({"findings": [*found, "no finding"]}) == [
        {"status": "fail", "id": "a.fail", "value": 3}, {"status": "warn", "id": "a.warn", "value": 3},
    ]  # fmt: skip


def test_a_storm_of_findings_is_bounded_and_a_report_without_any_has_none() -> None:
    storm = [{"status": "warn", "id": "a.b"}] * 500 + [{"status": "fail", "id": "a.c"}]
    kept = kept_findings({"findings": storm})
    assert (len(kept), kept[0]["id"]) == (40, "a.c")
    assert kept_findings({}) == []


@pytest.mark.parametrize(
    ("seconds", "failed", "told"),
    [
        (0.1, False, ["operation"]),
        (7.0, False, ["operation", "operation ended"]),
        (0.1, True, ["operation", "operation ended"]),
    ],
)
def test_an_operation_that_took_its_time_or_failed_is_told_with_its_seconds(
    monkeypatch: pytest.MonkeyPatch, seconds: float, failed: bool, told: list[str]
) -> None:
    events: list[tuple[str, dict[str, Any]]] = []
    session: Any = SimpleNamespace(tell_journal=lambda event, **facts: events.append((event, facts)))
    clock = iter([100.0, 100.0 + seconds])
    monkeypatch.setattr(operations.time, "monotonic", lambda: next(clock))
    state: Any = SimpleNamespace(get_op_meta=lambda _: SimpleNamespace(names={"3 driver: install"}))
    host: Any = SimpleNamespace(name="kpro5")
    watching = Operations(session)
    watching.operation_host_start(state, host, "h")
    (watching.operation_host_error if failed else watching.operation_host_success)(state, host, "h")
    assert [event for event, _ in events] == told
    if len(told) > 1:
        assert events[-1][1] == {
            "host": "kpro5", "name": "3 driver: install", "state": "failed" if failed else "done", "seconds": seconds,
        }  # fmt: skip
