"""Recorded drafter configs of real runs: what the doctor says from files alone, against what the runs did."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from checks.model import Status
from tests.unit.drafter.makers import Pair, dflash_shapes, judged, toy_pair

F, W, P = Status.FAIL, Status.WARN, Status.PASS

EXPECTED: dict[str, dict[str, Status]] = {
    "right": {},
    "right_cpu_starved": {},
    "random": {},
    "k1": {"drafter.k": W},
    "k3": {"drafter.k": W},
    "k15": {"drafter.k": W},
    "ids_unshifted": {"drafter.ids_convention": W},
    "ids_early2": {"drafter.ids_convention": F},
    "ids_ends": {"drafter.ids_convention": F},
    "ids_reversed": {"drafter.ids_order": W},
    "stale_compile_cache": {"drafter.ids_convention": W},
    "theta_missing": {"drafter.rope": F},
    "theta_1e5": {"drafter.rope": F},
    "theta_1e8": {"drafter.rope": F},
    "mask_eot": {"drafter.mask": F},
    "vocab_smaller": {"drafter.vocab": F},
    "missing_fc": {"drafter.tensors": F},
    "missing_hidden_norm": {"drafter.tensors": F},
    "fail_ids_out_of_range": {"drafter.ids_range": F},
    "fail_mask_missing": {"drafter.mask": F},
    "fail_mask_out_of_vocab": {"drafter.mask": F},
    "fail_vocab_missing": {"drafter.vocab": F},
}
"""Findings that must not be green. What is not named must not fail."""

FOLLOWS = {
    "fail_ids_out_of_range": {"drafter.ids_count", "drafter.ids_convention"},
    "missing_fc": {"drafter.ids_count", "drafter.ids_family"},
}
"""What else cannot be green then: the other list still says something else; without fc nobody knows how
many ids."""

NOT_KNOWABLE = {
    "mask_unused": "which of several unused ids is the mask",
    "random": "weights that were never trained",
    "right_cpu_starved": "nothing about the drafter",
}


def pair_of(case: str, config: dict[str, object]) -> Pair:
    pair = toy_pair()
    pair.config = config
    if config.get("hidden_size") == 64:
        pair.shapes = dflash_shapes(hidden=64, inter=128, heads=2, kv=1, head_dim=32, layers=3, captured=3)
        pair.target |= {"hidden_size": 64, "num_hidden_layers": 6}
    pair.shapes.pop(
        {"missing_fc": "fc.weight", "missing_hidden_norm": "hidden_norm.weight"}.get(case, ""), None
    )
    return pair


@pytest.mark.parametrize("case", [*EXPECTED, "mask_unused"])
def test_a_recorded_config_is_judged_as_the_run_turned_out(shared: Path, case: str) -> None:
    config = json.loads((shared / "fixtures" / "spec" / f"{case}.drafter_config.json").read_text())
    k = {"k1": 1, "k3": 3, "k15": 15}.get(case, 7)
    findings = judged(pair_of(case, config), "vllm==0.20.1", k=k)
    wanted = EXPECTED.get(case, {})
    for name, status in wanted.items():
        assert findings[name].status is status, findings[name].message
    failed = {name for name, finding in findings.items() if finding.status in (F, Status.UNKNOWN)}
    outlook = {"drafter.outlook"} if F in wanted.values() else set()
    named = {name for name, status in wanted.items() if status is F}
    assert failed - FOLLOWS.get(case, set()) == named | outlook
    if not wanted:
        assert findings["drafter.outlook"].status is P


@pytest.mark.parametrize("case", sorted(NOT_KNOWABLE))
def test_what_files_cannot_tell_is_said_and_not_guessed(shared: Path, case: str) -> None:
    config = json.loads((shared / "fixtures" / "spec" / f"{case}.drafter_config.json").read_text())
    findings = judged(pair_of(case, config), "vllm==0.20.1", k=7)
    assert "cannot be known from files" in findings["drafter.mask"].message
    assert "what files cannot tell" in findings["drafter.outlook"].message
