"""The incident: a bare file, a guessed config, acceptance length 1.12. Each fault judged, each with its
measured size."""

from __future__ import annotations

import pytest

from checks.drafter.case import Case
from checks.drafter.compose import compose
from checks.drafter.config import parse
from checks.drafter.doctor import judge
from checks.model import Status, verdict_of
from tests.unit.drafter.makers import Pair, case_of, incident_pair, judged


def test_four_of_five_guessed_ids_are_off_and_said_to_be_near() -> None:
    finding = judged(incident_pair(), "vllm==0.20.1")["drafter.ids_family"]
    assert finding.status is Status.FAIL
    assert finding.message.startswith(
        "4 of 5 ids are off: [1, 17, 33, 49, 63] where [1, 16, 31, 46, 61] were trained"
    )
    assert "captures [0, 16, 32, 48, 62], at most 2 of 64 layers away" in finding.message
    assert (finding.value, finding.limit) == ([1, 17, 33, 49, 63], [1, 16, 31, 46, 61])


@pytest.mark.parametrize(
    ("check", "status", "seen"),
    [
        ("drafter.mask", Status.FAIL, "248070"),
        ("drafter.rope", Status.FAIL, "1000 times too low"),
        ("drafter.vocab", Status.FAIL, "151936 (absent, so the silent default)"),
        ("drafter.window", Status.WARN, "4 in Qwen3.6-27B-DFlash"),
        ("drafter.ids_convention", Status.WARN, "[0, 16, 32, 48, 62]"),
        ("drafter.defaults", Status.WARN, "rope_theta becomes 10000.0 (right: 10000000.0)"),
    ],
)
def test_mask_rope_vocabulary_window_and_counting_are_each_judged(
    check: str, status: Status, seen: str
) -> None:
    finding = judged(incident_pair(), "vllm==0.20.1")[check]
    assert (finding.status, seen in finding.message) == (status, True), finding.message


def test_the_collapse_is_laid_on_mask_and_rope_and_not_on_an_off_by_one() -> None:
    findings, facts = judge(case_of(incident_pair(), "vllm==0.20.1"))
    outlook = next(finding for finding in findings if finding.id == "drafter.outlook")
    assert (
        outlook.message.index("mask:") < outlook.message.index("rope:") < outlook.message.index("ids_family:")
    )
    assert outlook.message.index("ids_family:") < outlook.message.index("ids_convention:")
    assert "The collapse is explained by mask or rope" in outlook.message
    assert outlook.cause is not None
    assert "hide each other" in outlook.cause
    lengths = {row["rule"]: row["acceptance_length"] for row in facts["effects"]}
    assert lengths["mask_is_end"] == 1.10
    assert lengths["rope_absent"] == 1.13
    assert lengths["ids_shifted"] == 3.64
    assert lengths["ids_off_family"] == 2.38


def test_an_off_by_one_alone_is_a_warning_and_explains_no_collapse() -> None:
    pair = incident_pair()
    pair.config = dict(compose(case_of(pair, "vllm==0.33.0")).content)
    findings = judged(pair, "vllm==0.20.1")
    assert findings["drafter.ids_convention"].status is Status.WARN
    assert findings["drafter.ids_family"].status is Status.PASS
    assert verdict_of(findings.values()) is Status.WARN
    assert "collapse" not in findings["drafter.outlook"].message


def composed(pair: Pair, engine: str) -> Case:
    made = compose(case_of(pair, engine))
    assert made.refusals == ()
    fixed = Pair(pair.shapes, dict(made.content), pair.target)
    return case_of(fixed, engine)


@pytest.mark.parametrize(
    ("engine", "shifted"),
    [
        ("vllm==0.20.1", [2, 17, 32, 47, 62]),
        ("vllm==0.21.0", [2, 17, 32, 47, 62]),
        ("vllm==0.22.0", None),
        ("vllm==0.33.0", None),
        ("sglang==0.5.11", None),
        ("dflash==0.1.0", None),
    ],
)
def test_the_written_config_captures_the_trained_layers_on_every_engine(
    engine: str, shifted: list[int] | None
) -> None:
    case = composed(incident_pair(), engine)
    assert case.captured_layers == (1, 16, 31, 46, 61)
    assert case.config is not None
    top = case.config.ids.get("eagle_aux_hidden_state_layer_ids")
    assert (list(top) if top else None) == shifted
    assert [f.message for f in judge(case)[0] if f.status in (Status.FAIL, Status.UNKNOWN)] == []


def test_every_written_value_carries_its_origin() -> None:
    made = compose(case_of(incident_pair(), "vllm==0.20.1"))
    origins = dict(made.origins)
    assert origins["hidden_size"] == "weights"
    assert origins["vocab_size"] == "target"
    assert origins["dflash_config.mask_token_id"] == "family"
    assert origins["rope_theta"] == "family"
    assert origins["layer_types"] == "family"
    config = parse(made.content)
    assert (config.mask, config.theta, config.block, config.window) == (248070, 1e7, 16, 2048)
    assert config.use_window is True


def test_a_mask_that_nobody_knows_is_never_invented() -> None:
    pair = incident_pair()
    pair.config = None
    pair.shapes["layers.0.mlp.gate_proj.weight"] = (17409, 5120)
    made = compose(case_of(pair, "vllm==0.20.1"))
    assert made.content == {}
    assert any("mask token is known from nobody" in reason for reason in made.refusals)


def test_a_theta_that_nobody_knows_is_never_invented_and_all_reasons_come_at_once() -> None:
    pair = incident_pair()
    pair.config = None
    del pair.target["text_config"]["rope_parameters"]
    for n in range(5):
        pair.shapes[f"layers.{n}.mlp.gate_proj.weight"] = (17000, 5120)
    reasons = " ".join(compose(case_of(pair, "vllm==0.20.1")).refusals)
    assert "rope_theta is known from nobody" in reasons
    assert "mask token is known from nobody" in reasons


def test_ids_from_the_formula_are_marked_unconfirmed() -> None:
    pair = incident_pair()
    assert pair.config is not None
    pair.config = {"mask_token_id": 248070, "model_type": "qwen3", "rope_theta": 1e7}
    for n in range(5):
        pair.shapes[f"layers.{n}.mlp.gate_proj.weight"] = (17000, 5120)
    made = compose(case_of(pair, "vllm==0.33.0"))
    assert made.origins["dflash_config.target_layer_ids"] == "formula, unconfirmed"
    assert made.origins["dflash_config.mask_token_id"] == "config"
    assert made.origins["rope_theta"] == "target"
