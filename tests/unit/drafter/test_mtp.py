"""Multi-token prediction: found by name or by layer number, and held against the quantisation's ignore list."""

from __future__ import annotations

from typing import Any

import pytest

from checks.drafter.rules.mtp import _covers, prediction_tensors
from checks.model import Status
from tests.unit.drafter.makers import Pair, case_of, judged


def pair(shapes: dict[str, tuple[int, ...]], **config: Any) -> Pair:
    base = {"model_type": "some", "num_hidden_layers": 4, "vocab_size": 10, **config}
    return Pair({"model.layers.0.mlp.up_proj.weight": (4, 4), **shapes}, base, base)


@pytest.mark.parametrize(
    "name",
    [
        "mtp.fc.weight",
        "model.mtp.layers.0.self_attn.q_proj.weight",
        "model.layers.4.eh_proj.weight",
        "model.layers.4.self_attn.q_proj.weight",
        "model.layers.4.shared_head.head.weight",
    ],
)
def test_prediction_tensors_are_found_in_every_published_spelling(name: str) -> None:
    case = case_of(pair({name: (4, 4)}, num_nextn_predict_layers=1), same=True)
    assert list(prediction_tensors(case)) == [name]


def test_layers_of_the_target_itself_and_of_its_eyes_are_none() -> None:
    shapes = {
        "model.layers.3.mlp.up_proj.weight": (4, 4),
        "model.visual.layers.20.mlp.up_proj.weight": (4, 4),
    }
    assert prediction_tensors(case_of(pair(shapes), same=True)) == {}


@pytest.mark.parametrize(
    ("pattern", "covered"),
    [
        ("mtp.fc", True),
        ("mtp", True),
        ("fc", True),
        ("lm_head", False),
        ("mtp.f", False),
        ("re:.*mtp.*", True),
        ("re:mtp", True),
        (r"re:model\.layers\.61\..*", False),
        ("re:(a+)+$", True),
        ("re:[", True),
    ],
)
def test_ignore_patterns_are_read_as_the_engines_read_them(pattern: str, covered: bool) -> None:
    assert _covers(pattern, "mtp.fc") is covered


def test_an_expression_made_to_run_for_ever_is_not_run() -> None:
    assert _covers("re:(a*)*b", "a" * 5000)
    assert _covers("re:" + "a*" * 50 + "b", "a" * 5000)


def test_uneven_k_is_refused_and_a_multiple_is_not() -> None:
    layers = {f"mtp.layers.{n}.fc.weight": (4, 4) for n in range(2)}
    both = pair(layers, mtp_num_hidden_layers=2)
    assert judged(both, same=True, k=3)["drafter.k"].status is Status.FAIL
    assert judged(both, same=True, k=4)["drafter.k"].status is Status.PASS
    assert judged(both, same=True, k=1)["drafter.k"].status is Status.PASS


def test_checks_of_block_drafters_do_not_arise() -> None:
    findings = judged(pair({"mtp.fc.weight": (4, 4)}, mtp_num_hidden_layers=0), same=True)
    assert findings["drafter.mask"].status is Status.SKIP
    assert findings["drafter.ids_count"].status is Status.SKIP
    assert findings["drafter.mtp"].status is Status.WARN
