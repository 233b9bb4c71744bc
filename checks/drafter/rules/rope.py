"""RoPE: the base must be the one used in training; absent, it silently becomes 10000."""

from __future__ import annotations

from checks.data.drafter_effects import Effect, rope_effect
from checks.drafter.case import Case
from checks.drafter.rule import Check, Facts, Rule
from checks.model import Status

SAME = 1.05
"""Bases closer than this factor count as equal: no drafter has two."""


def _ratio(case: Case) -> float | None:
    right = case.expected.theta
    have = case.config.effective_theta if case.config else None
    if right is None or have is None:
        return None
    ratio = have / float(right.value)
    return None if 1 / SAME < ratio < SAME else ratio


def _facts(case: Case) -> Facts | None:
    ratio, right = _ratio(case), case.expected.theta
    if ratio is None or right is None or case.config is None:
        return None
    factor = max(ratio, 1 / ratio)
    times = f"{factor:{'.0f' if factor >= 10 else '.2g'}} times too {'low' if ratio < 1 else 'high'}"
    return {
        "have": f"{case.config.effective_theta:.10g}",
        "right": f"{right.value:.10g}",
        "times": times,
        "origin": right.origin,
        "source": right.source,
    }


def _written(case: Case) -> bool:
    return case.config is not None and case.config.theta is not None


def absent(case: Case) -> Facts | None:
    return None if _written(case) or case.kind == "eagle3" else _facts(case)


def differs(case: Case) -> Facts | None:
    return _facts(case) if _written(case) and case.kind != "eagle3" else None


def own(case: Case) -> Facts | None:
    """EAGLE-3 attends to its own keys: its base is the trainer's choice, and published ones differ from their
    target's, or are left out because 10000 was trained."""
    return _facts(case) if case.kind == "eagle3" else None


def two(case: Case) -> Facts | None:
    if case.config is None or case.config.other_theta is None:
        return None
    return {"one": f"{case.config.theta:.10g}", "other": f"{case.config.other_theta:.10g}"}


def partial(case: Case) -> Facts | None:
    have = case.config.partial_rotary if case.config else None
    right = case.expected.partial_rotary
    if have is None or have == 1.0 or (right is not None and right.value == have):
        return None
    return {"have": have}


def scaled(case: Case) -> Facts | None:
    mine = _scaling(case.config.rope_type if case.config else None)
    theirs = _scaling(case.goal.rope_type)
    return None if case.config is None or mine == theirs else {"mine": mine, "theirs": theirs}


def _scaling(name: str | None) -> str:
    """Multi-section RoPE (mrope) is plain RoPE for text."""
    return "default" if name in (None, "mrope") else str(name)


def effect_of(case: Case) -> Effect | None:
    ratio = _ratio(case)
    return None if ratio is None else rope_effect(ratio)


def _blind(case: Case) -> str | None:
    if case.config is None:
        return None
    if case.expected.theta is None:
        return (
            "neither the target's config nor a relative gives rope_theta; fetch the target's whole "
            "config.json"
        )
    if case.config.effective_theta is None:
        return (
            f"rope_theta is absent, and what model_type {case.config.model_type!r} makes of that is "
            "not known; write it down"
        )
    return None


def _skips(case: Case) -> str | None:
    if case.kind not in {"dflash", "dflash2", "eagle3"}:
        return f"{case.kind_name} keeps its own RoPE"
    return "no config.json" if case.config is None else None


CHECKS = (
    Check(
        "drafter.rope",
        "A drafter rotates by the base it was trained with; a wrong one keeps the first position "
        "and cuts the tail off.",
        lambda case: (
            f"rope_theta {case.config.effective_theta:.10g} is that of {case.expected.theta.source} "
            f"({case.expected.theta.origin})"
            if case.config and case.expected.theta
            else ""
        ),
        skips=_skips,
        blind=_blind,
        value=lambda case: case.config.effective_theta if case.config else None,
        limit=lambda case: case.expected.theta.value if case.expected.theta else None,
    ),
)

RULES = (
    Rule(
        "rope_absent",
        "drafter.rope",
        Status.FAIL,
        absent,
        "rope_theta is absent and silently becomes {have}: {times} (right: {right})",
        "transformers fills it in before vLLM's own default of 1e6 could; {origin}: {source}",
        "write rope_theta {right}",
        "transformers 5.6.0 modeling_rope_utils.py; Blackwellboy/model-serving-minefield#107",
        effect_of,
    ),
    Rule(
        "rope_differs",
        "drafter.rope",
        Status.FAIL,
        differs,
        "rope_theta {have} is {times} (right: {right})",
        "copied from another generation of models ({origin}: {source})",
        "write rope_theta {right}",
        "measured on vLLM 0.20.1",
        effect_of,
    ),
    Rule(
        "rope_own",
        "drafter.rope",
        Status.WARN,
        own,
        "rope_theta is {have}, the target's {right}: whether it was trained so, no file tells",
        "a head with its own keys keeps the base that it was trained with, 10000 where that was left out; a config "
        "that was written by hand may have lost it",
        "compare with the publisher's config and the acceptance length that it names",
        "sgl-project/SpecForge configs: kimi-k2-eagle3 (1e6, its target 5e4), llama4-scout-17B-16E-eagle3 (absent)",
        effect_of,
    ),
    Rule(
        "rope_two",
        "drafter.rope",
        Status.WARN,
        two,
        "two values of rope_theta stand in the file: {one} in rope_parameters and {other} at the top",
        "rope_parameters wins in transformers 5, the other one in older readers",
        "leave one",
        "transformers 5.6.0 convert_rope_params_to_dict",
    ),
    Rule(
        "rope_partial",
        "drafter.rope",
        Status.WARN,
        partial,
        "the drafter declares partial_rotary_factor {have}",
        "it was ignored in training or in serving before, with acceptance lengths of 1.04-1.07",
        "make sure that the drafter was trained with it; published DFlash drafters rotate fully "
        "even where the target does not",
        "vllm-project/speculators#613",
    ),
    Rule(
        "rope_scaled",
        "drafter.rope",
        Status.WARN,
        scaled,
        "RoPE scaling is {mine} in the drafter and {theirs} in the target",
        "positions beyond the trained length then mean different things to the two",
        "give both the same rope_scaling, unless the publisher says otherwise",
        "transformers 5.6.0 modeling_rope_utils.py",
    ),
)
