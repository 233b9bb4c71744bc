"""What differs from a baseline: which differences are a cause, which only context, and what the fall is."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from checks.data.drafter_fields import FIELDS, NO_EFFECT
from checks.serving import record, saved
from checks.serving.baseline import Baseline, from_json, to_json
from checks.serving.drafterdiff import changes, fields_of, siblings
from checks.serving.evidence import Evidence, gather
from checks.serving.observation import Observation
from checks.serving.report import report
from checks.serving.rules_bands import band_of, bordering
from checks.serving.signs import signs_of
from checks.serving.since import context_of, fall, settings_changed, suspects

RECORDS = Path(__file__).parents[2] / "replay/serving/records"
GOOD = saved.load(str(RECORDS / "good.json"))
MASK = record.load(str(RECORDS / "mask.json"))
CONFIG: dict[str, Any] = MASK.drafter_config or {}


def against(seen: Observation = MASK, base: Baseline = GOOD, **settings: Any) -> Evidence:
    return gather(seen, (replace(base, settings={**base.settings, **settings}),))


def named(seen: Observation, base: Baseline) -> dict[str, Any]:
    found: dict[str, Any] = report(seen, (base,), with_diagnosis=True).facts["diagnosis"]
    return found


def turned(config: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    copy: dict[str, Any] = json.loads(json.dumps(config))
    group, _, name = path.rpartition(".")
    (copy.setdefault(group, {}) if group else copy)[name] = value
    return copy


@pytest.mark.parametrize("row", FIELDS, ids=[row.field for row in FIELDS])
def test_a_field_is_compared_exactly_when_it_matters_to_what_is_served(row: Any) -> None:
    values: dict[str, Any] = {
        "rope_parameters": {"rope_type": "yarn"},
        "rope_scaling": {"type": "yarn"},
        "layer_types": ["sliding_attention"] * 3,
        "architectures": ["Other"],
        "dtype": "float16",
        "torch_dtype": "float16",
        "model_type": "llama",
    }
    name = "torch_dtype" if row.field == "dtype" else row.field
    value = values.get(row.field, [3, 4, 5] if "layer_ids" in row.field else 17)
    differ = {item.field for item in changes(fields_of(CONFIG), fields_of(turned(CONFIG, name, value)))}
    assert (row.field in differ) is (row.kind != NO_EFFECT)


def test_a_rope_theta_is_the_same_wherever_it_stands_and_an_absent_one_is_what_it_becomes() -> None:
    moved = turned(CONFIG, "rope_parameters", {"rope_theta": 1000000, "rope_type": "default"})
    del moved["rope_theta"]
    assert changes(fields_of(CONFIG), fields_of(moved)) == ()
    del moved["rope_parameters"]
    (gone,) = changes(fields_of(CONFIG), fields_of(moved))
    assert gone.words == "rope_theta: 1000000 -> 10000"


def test_an_unknown_config_differs_from_none() -> None:
    assert changes({}, fields_of(CONFIG)) == () == changes(fields_of(CONFIG), fields_of(None))


def test_the_difference_of_two_configs_is_the_suspect_and_the_fall_is_told() -> None:
    e = against()
    told = suspects(e, signs_of(e), ("dflash_config.mask_token_id",))
    assert "dflash_config.mask_token_id: 4090 -> 4094" in told
    assert "from position 1 on: 0.174 against 0.662" in told
    assert suspects(e, signs_of(e), ("rope_theta",)) == ""


def test_a_drafter_of_another_make_has_its_own_mask_token() -> None:
    other = replace(GOOD, drafter={**GOOD.drafter, "hidden_size": 512})
    e = against(base=other)
    assert not siblings(other.drafter, fields_of(CONFIG))
    assert suspects(e, signs_of(e), ("dflash_config.mask_token_id",)) == ""
    assert "another make" in str(named(MASK, other)["causes"])


def test_a_difference_in_a_drafter_that_is_accepted_as_well_is_no_cause() -> None:
    good = record.load(str(RECORDS / "good.json"))
    told = named(replace(good, drafter_config=turned(CONFIG, "sliding_window", 512)), GOOD)
    assert (told["headline"], told["causes"]) == ("nothing to explain", [])
    assert any("sliding_window: absent -> 512" in line for line in told["context"])


def test_without_both_configs_the_fall_is_told_and_the_configs_are_asked_for() -> None:
    told = named(replace(MASK, drafter_config=None, target_config=None), replace(GOOD, drafter={}))
    (cause,) = [cause for cause in told["causes"] if cause["id"] == "other_drafter"]
    assert cause["weight"] < 0.6, "a curve like a wrong rope's goes before it"
    assert "64% fewer drafts accepted, from position 1 on" in cause["because"]
    assert "provcheck compare" in cause["settled_by"]


def test_a_path_is_context_and_never_a_changed_setting() -> None:
    e = against(model="/srv/elsewhere")
    assert settings_changed(e, signs_of(e)) == []
    assert [line.split(":")[0] for line in context_of(e)] == [
        "another drafter than the baseline's",
        "another model than the baseline's",
        "the drafters' configs differ",
    ]


@pytest.mark.parametrize(
    ("key", "was", "counts"),
    [
        ("quantization", "fp8", True),
        ("runner", "v2", True),
        ("cpus", 64, False),
        ("custom_all_reduce", True, False),
        ("max_len", 4096, False),
    ],
)
def test_a_setting_that_only_costs_time_explains_no_lost_acceptance(key: str, was: Any, counts: bool) -> None:
    e = against(**{key: was})
    e = replace(
        e, settings=replace(e.settings, values={"quantization": None, "runner": "v1"} | e.settings.values)
    )
    assert bool(settings_changed(e, signs_of(e))) is counts


@pytest.mark.parametrize(("was", "counts"), [(64, True), (8, False)])
def test_fewer_cpus_can_slow_a_step_and_more_cannot(was: int, counts: bool) -> None:
    e = against(base=replace(GOOD, ms_per_step=2.0), cpus=was)
    assert signs_of(e).slow_step
    assert bool(settings_changed(e, signs_of(e))) is counts


def test_a_changed_setting_never_goes_before_what_the_counters_show() -> None:
    base = replace(GOOD, settings={**GOOD.settings, "runner": "v2", "attention_backend": "triton"})
    causes = {
        cause["id"]: cause for cause in named(record.load(str(RECORDS / "untrained.json")), base)["causes"]
    }
    assert causes["drift"]["rank"] > causes["weights"]["rank"]
    seen = replace(MASK, config=MASK.config | {"version": "0.20.1"})
    causes = {cause["id"]: cause for cause in named(seen, replace(base, drafter={}))["causes"]}
    assert causes["mask_token"]["rank"] == 1
    assert 0 < causes["drift"]["weight"] < causes["mask_token"]["weight"] < 0.7


def test_what_is_missing_of_speculation_is_worth_length_over_break_even() -> None:
    off = record.load(str(RECORDS / "good.json"))
    page = "".join(line for line in (off.after or "").splitlines(True) if "spec_decode" not in line)
    window = {key: value for key, value in (off.window or {}).items() if key != "kinds"} | {
        "tok_s": {"1": 500.0}
    }
    config = json.loads(json.dumps(off.config))
    words = config["proc"]["cmdline"]
    at = words.index("--speculative-config")
    del words[at : at + 2]
    seen = replace(off, before=None, after=page, log=None, window=window, config=config, drafter_config=None)
    told = named(seen, GOOD)
    assert told["headline"].startswith("tuning of speculation: no speculation, and the baseline speculates (")
    assert "break-even is a length of 2.43, so speculation is worth 1.55x" in told["headline"]
    assert {"hardware", "starved_cpu"} <= {row["id"] for row in told["excluded"]}
    slow = replace(seen, window=window | {"tok_s": {"1": 100.0}, "cpu_wait": 0.6})
    told = named(slow, GOOD)
    assert told["causes"][0]["id"] == "starved_cpu"
    assert "hardware" in {cause["id"] for cause in told["causes"]}


@pytest.mark.parametrize("first", [0.064, 0.077])
def test_near_the_border_of_two_bands_both_families_are_named(first: float) -> None:
    assert bordering(first)
    assert band_of(first) == ("tensors" if first < 0.075 else "mask")
    assert not bordering(0.04)
    assert not bordering(0.09)


def test_a_saved_baseline_keeps_the_config_of_its_drafter_and_an_old_one_has_none() -> None:
    data = json.loads(json.dumps(to_json(GOOD, "t")))
    assert from_json(data, "b").drafter == GOOD.drafter
    assert GOOD.drafter["dflash_config.mask_token_id"] == 4090
    del data["drafter"]
    assert from_json(data, "b").drafter == {}


def test_a_fall_at_every_position_is_told_as_one() -> None:
    e = against(record.load(str(RECORDS / "untrained.json")))
    assert "at every position" in fall(e)
