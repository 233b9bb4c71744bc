"""What a guest remembers: verdicts and readings. What is none is never taken for one."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.serving import baseline as checked
from provision.data import noise
from provision.spec import Baseline
from provision.stack import baselines, trials
from provision.stack.baselines import Belongs, NoReading
from provision.stack.trials import NoVerdict, Trial
from tests.unit.plan.tried import reading

DIGEST = "5" * 64
WHOLE = Trial(
    DIGEST,
    "accepted",
    "beats=1.1",
    "",
    "beside",
    "down for about 4 s",
    3.9,
    31.0,
    44.0,
    99.5,
    3.9,
    "now",
    "r1",
)


def test_a_verdict_is_read_as_it_was_written() -> None:
    assert trials.read(WHOLE.dump().decode()) == WHOLE


def test_no_file_is_no_verdict_and_no_error() -> None:
    assert trials.read(None) is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"schema": "kpro-trial/2"}, "kpro-trial/2"),
        ({"schema": None}, "schema"),
        ({"digest": "5" * 63}, "names no profile"),
        ({"digest": 5}, "names no profile"),
        ({"verdict": "promoted"}, "promoted"),
        ({"verdict": True}, "True"),
    ],
)
def test_what_is_not_a_whole_verdict_of_this_schema_is_none(change: dict[str, object], said: str) -> None:
    data = json.loads(WHOLE.dump()) | change
    with pytest.raises(NoVerdict, match=said):
        trials.read(json.dumps(data))


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '"accepted"', WHOLE.dump().decode()[:-9], "[" * 100_000]
)
def test_a_cut_off_or_foreign_file_is_no_verdict(text: str) -> None:
    with pytest.raises(NoVerdict):
        trials.read(text)


def test_a_figure_that_is_none_is_not_known() -> None:
    data = json.loads(WHOLE.dump()) | {
        "downtime_s": "fast",
        "start_s": True,
        "tok_s": -1,
        "acceptance": float("inf"),
    }
    found = trials.read(json.dumps(data))
    assert found is not None
    assert (found.downtime_s, found.start_s, found.tok_s, found.acceptance) == (None, None, None, None)


BELONGS = Belongs("a/b@1", "vllm 0.33.0", "0" * 12, ("RTX A6000", "RTX A6000"))


def test_a_reading_belongs_to_model_engine_environment_gpus_and_prompts() -> None:
    others = [
        Belongs("a/b@2", BELONGS.engine, BELONGS.environment, BELONGS.gpus),
        Belongs(BELONGS.model, "vllm 0.20.1", BELONGS.environment, BELONGS.gpus),
        Belongs(BELONGS.model, BELONGS.engine, "1" * 12, BELONGS.gpus),
        Belongs(BELONGS.model, BELONGS.engine, BELONGS.environment, BELONGS.gpus[:1]),
        Belongs(BELONGS.model, BELONGS.engine, BELONGS.environment, ("H200", "H200")),
        Belongs(BELONGS.model, BELONGS.engine, BELONGS.environment, BELONGS.gpus, "shipped/2"),
    ]
    assert len({BELONGS.key, *(one.key for one in others)}) == 7
    assert len(BELONGS.key) == 12
    assert BELONGS.key == Belongs(**BELONGS.as_dict() | {"gpus": BELONGS.gpus}).key


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"schema": "provcheck-baseline/1"}', reading(0.0).decode(), "[" * 99_999]
)
def test_a_file_without_a_decode_speed_is_no_reading(text: str) -> None:
    with pytest.raises(NoReading):
        baselines.read("k", text)


def test_a_kept_reading_says_who_took_it_and_for_what() -> None:
    text = baselines.with_origin(reading(90.0), "r1", DIGEST, BELONGS).decode()
    found = baselines.read(BELONGS.key, text)
    assert found is not None
    assert (found.tok_s, found.run, found.digest, found.belongs) == (90.0, "r1", DIGEST, BELONGS.as_dict())
    assert checked.from_json(json.loads(text), "x").tok_s == 90.0


def test_a_baseline_is_never_lowered_by_a_run() -> None:
    kept = reading(100.0).decode()
    for slower in (1.0, 79.0, 99.9, 100.0):
        assert baselines.worth_keeping(kept, reading(slower).decode()) is None


def test_a_baseline_is_raised_only_by_more_than_readings_differ_by() -> None:
    kept = reading(100.0).decode()
    assert baselines.worth_keeping(kept, reading(109.9).decode()) is None
    assert "110.0" in (baselines.worth_keeping(kept, reading(110.5).decode()) or "")


@given(st.lists(st.floats(93.0, 107.0), min_size=1, max_size=40))
def test_many_equal_runs_leave_the_baseline_where_it_was(runs: list[float]) -> None:
    kept = reading(100.0).decode()
    for one in runs:
        assert baselines.worth_keeping(kept, reading(one).decode()) is None


def test_the_first_reading_is_kept_and_one_that_cannot_be_read_gives_way() -> None:
    fresh = reading(50.0).decode()
    assert baselines.worth_keeping(None, fresh) == "none was kept"
    assert "cannot be read" in (baselines.worth_keeping("{cut", fresh) or "")
    with pytest.raises(NoReading):
        baselines.worth_keeping(reading(1.0).decode(), "{cut")


def test_what_the_inventory_states_is_a_baseline_that_provcheck_holds_any_run_against() -> None:
    found = checked.from_json(
        json.loads(baselines.stated(Baseline(decode_tok_s=73.5, source="by hand"))), "stated"
    )
    assert (found.tok_s, found.length, found.speculation) == (73.5, None, True)
    many = checked.from_json(
        json.loads(baselines.stated(Baseline(decode_tok_s=20.0, concurrency=16, source="x"))), "stated"
    )
    assert (many.tok_s, many.by_concurrency) == (None, {"16": 20.0})


def test_the_noise_has_a_source_and_is_no_less_than_what_was_seen() -> None:
    assert noise.ratio("tok_s") >= 937 / 872
    assert all(row.source and row.seen and row.checked for row in noise.ROWS)
