"""Every field of every published drafter broken in turn: caught by the finding that the published list names,
or listed.

The list is the one that ``provcheck drafter --knowable`` prints, so the page cannot promise what the code
does not do.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from checks.data.drafter_families import FAMILIES, Family
from checks.data.drafter_fields import FIELDS, JUDGED, NO_EFFECT, NOT_KNOWABLE_THINGS
from checks.model import Finding, Status
from tests.unit.drafter.makers import Pair, family_pair, judged

GONE = object()
ENGINES = ("vllm==0.33.0", "sglang==0.5.23", "vllm==0.20.1")
ROWS = {row.field: row for row in FIELDS}

BROKEN: dict[str, list[Any]] = {
    "architectures": [["LlamaForCausalLM"], GONE, [], "DFlashDraftModel"],
    "model_type": ["llama", GONE, 3],
    "hidden_size": [1024, GONE, "big"],
    "intermediate_size": [1000, GONE],
    "num_hidden_layers": [1, 12, GONE],
    "num_attention_heads": [1, 7],
    "num_key_value_heads": [1, GONE],
    "head_dim": [32],
    "attention_bias": [True],
    "dtype": ["float16", "float32"],
    "vocab_size": [3000, 400000],
    "num_target_layers": [1, GONE],
    "rope_theta": [5e4, 1e9, GONE, "1e6"],
    "rope_parameters": [{"rope_theta": 1e3}, {"rope_theta": 1e6, "rope_type": "yarn"}],
    "rope_scaling": [{"rope_type": "linear", "factor": 4.0}],
    "partial_rotary_factor": [0.5],
    "rms_norm_eps": [1e-3],
    "hidden_act": ["gelu"],
    "max_position_embeddings": [512, GONE],
    "block_size": [5, GONE],
    "layer_types": [["full_attention"], ["odd_attention"]],
    "dflash_config.mask_token_id": [10**7, 7, 300, GONE, -1, 1.5],
    "dflash_config.target_layer_ids": [[1], [0, 0, 0, 0, 0], [500, 1, 2, 3, 4], [2, 3, 4, 5, 6], GONE, "1,2"],
    "eagle_aux_hidden_state_layer_ids": [[0, 1, 2], [500, 501, 502, 503, 504], [1, 2, 3, 4, 5]],
}
"""Values that are wrong for every drafter of the table."""


def changed(pair: Pair, field: str, value: Any) -> Pair:
    other = copy.deepcopy(pair)
    assert other.config is not None
    place, _, key = field.rpartition(".")
    group = other.config[place] if place else other.config
    if value is GONE:
        group.pop(key, None)
    else:
        group[key] = value
    return other


def not_passed(findings: dict[str, Finding]) -> set[tuple[str, Status]]:
    return {(n, f.status) for n, f in findings.items() if f.status not in (Status.PASS, Status.SKIP)}


def breaks() -> Iterator[tuple[Family, str, Any]]:
    for row in FAMILIES:
        for field, values in BROKEN.items():
            for value in values:
                yield row, field, value


def same_as_default(row: Family, field: str, value: Any) -> bool:
    """Leaving a field out changes nothing where the silent default is the true value."""
    pair = family_pair(row)
    assert pair.config is not None
    defaults = {"hidden_size": 4096, "num_hidden_layers": 32, "num_key_value_heads": 32}
    return value is GONE and field in defaults and pair.config.get(field) == defaults[field]


@pytest.mark.parametrize("row", FAMILIES, ids=lambda row: row.name)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_healthy_drafter_of_the_table_has_no_failure(row: Family, engine: str) -> None:
    findings = judged(family_pair(row), engine)
    if row.kind == "dflash2" and engine == "vllm==0.20.1":
        assert findings["drafter.engine"].status is Status.FAIL
        return
    bad = {n: f.message for n, f in findings.items() if f.status in (Status.FAIL, Status.UNKNOWN)}
    assert bad == {}


@pytest.mark.parametrize("engine", ["vllm==0.33.0", "vllm==0.20.1"])
@pytest.mark.parametrize(
    ("row", "field", "value"),
    [pytest.param(*item, id=f"{item[0].name}-{item[1]}-{i}") for i, item in enumerate(breaks())],
)
def test_every_broken_field_is_caught_by_the_finding_that_the_list_names(
    row: Family, field: str, value: Any, engine: str
) -> None:
    if same_as_default(row, field, value):
        after = judged(changed(family_pair(row), field, value), engine)
        assert field in after["drafter.defaults"].message
        return
    if field == "block_size" and value is not GONE and row.block is None:
        assert any("block size, where no relative is known" in what for what, _ in NOT_KNOWABLE_THINGS)
        return
    before, after = judged(family_pair(row), engine), judged(changed(family_pair(row), field, value), engine)
    new = {name for name, _ in not_passed(after) - not_passed(before)}
    wanted = set(ROWS[field].checks) | {"drafter.fields"}
    assert new & wanted, f"{field} = {value!r} is not caught: {sorted(new)}"


@pytest.mark.parametrize("row", FAMILIES, ids=lambda row: row.name)
def test_every_field_that_a_drafter_has_is_in_the_published_list(row: Family) -> None:
    pair = family_pair(row)
    assert pair.config is not None
    fields = {name for name in pair.config if name != "dflash_config"}
    fields |= {f"dflash_config.{name}" for name in pair.config["dflash_config"]}
    assert fields - ROWS.keys() == set()


def test_every_judged_field_is_broken_here_and_every_named_finding_exists() -> None:
    window = {"sliding_window", "use_sliding_window"}
    assert {row.field for row in FIELDS if row.kind == JUDGED} == set(BROKEN) | window
    known = set(judged(family_pair(FAMILIES[0])))
    assert {check for row in FIELDS for check in row.checks} <= known


@pytest.mark.parametrize("field", [row.field for row in FIELDS if row.kind == NO_EFFECT])
def test_a_field_without_effect_raises_no_alarm(field: str) -> None:
    pair = family_pair(FAMILIES[0])
    before = not_passed(judged(pair))
    for value in (1, GONE):
        assert not_passed(judged(changed(pair, field, value))) <= before | {("drafter.fields", Status.FAIL)}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("sliding_window", GONE),
        ("sliding_window", 512),
        ("use_sliding_window", GONE),
        ("use_sliding_window", False),
    ],
)
@pytest.mark.parametrize("engine", ["vllm==0.33.0", "sglang==0.5.23"])
def test_a_broken_window_field_is_caught_where_the_engine_honours_windows(
    field: str, value: Any, engine: str
) -> None:
    row = next(row for row in FAMILIES if row.name == "Qwen3.6-27B-DFlash")
    pair = family_pair(row)
    assert judged(pair, engine)["drafter.window"].status is Status.PASS
    assert judged(changed(pair, field, value), engine)["drafter.window"].status is not Status.PASS
