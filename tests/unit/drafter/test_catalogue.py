"""The catalogue explains every finding of the drafter doctor, and none that it does not give."""

from __future__ import annotations

from checks.data.catalogue import CATALOGUE
from checks.data.drafter_effects import EFFECTS, effect, rope_effect
from checks.drafter.doctor import CHECKS, RULES

BESIDE_THE_CHECKS = {"drafter.outlook", "drafter.siblings", "drafter.write"}


def test_the_catalogue_has_every_check_and_no_other() -> None:
    ours = {name for name in CATALOGUE if name.startswith("drafter.")}
    assert ours == {check.id for check in CHECKS} | BESIDE_THE_CHECKS


def test_every_measured_effect_is_used_by_a_rule_or_told_as_not_knowable() -> None:
    named = {rule.effect for rule in RULES if isinstance(rule.effect, str)}
    picked = {
        "rope",
        "mask_missing",
        "mask_eos",
        "mask_ordinary",
        "mask_unused",
        "ids_one_early",
        "ids_two_off",
    }
    picked |= {
        "ids_spread_wrong",
        "ids_far",
        "fc_missing",
        "attention_missing",
        "mlp_missing",
        "norm_missing",
    }
    assert {row.key for row in EFFECTS} - named - picked == {"untrained"}
    assert all(effect(key) for key in named)


def test_a_rope_error_takes_the_nearest_measured_row_on_its_own_side() -> None:
    assert [rope_effect(ratio).length for ratio in (0.001, 0.0004, 0.01, 0.2, 8, 300)] == [
        1.13,
        1.13,
        1.61,
        2.49,
        2.43,
        1.84,
    ]
