"""Decides: one case in, findings out. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from checks.data.drafter_effects import HEALTHY_LENGTH
from checks.data.drafter_fields import NOT_KNOWABLE_THINGS
from checks.drafter.case import Case
from checks.drafter.rule import Check, Fired, Rule, finding_of, fired_rules
from checks.drafter.rules import (
    block,
    details,
    ids,
    ids_trained,
    mask,
    mtp,
    origin,
    others,
    rope,
    shape,
    vocabulary,
    window,
)
from checks.drafter.rules.block import block_of, right_k
from checks.drafter.rules.origin import silent_defaults
from checks.model import Finding, Status

_FILES = (origin, shape, ids, ids_trained, mask, rope, vocabulary, window, block, details, mtp)
CHECKS: tuple[Check, ...] = tuple(check for file in _FILES for check in file.CHECKS)
RULES: tuple[Rule, ...] = tuple(rule for file in (*_FILES, others) for rule in file.RULES)


def judge(case: Case) -> tuple[tuple[Finding, ...], dict[str, Any]]:
    """All findings of one case and the facts behind them."""
    fired = applicable_rules(case)
    findings = [finding_of(check, case, fired) for check in CHECKS]
    findings.append(outlook(case, fired))
    return tuple(findings), facts_of(case, fired)


def applicable_rules(case: Case) -> tuple[Fired, ...]:
    """Rules that fire, less those of checks that do not arise for this drafter."""
    asked = {check.id for check in CHECKS if check.skips(case) is None}
    return tuple(item for item in fired_rules(case, RULES) if item.rule.check in asked)


def outlook(case: Case, fired: Sequence[Fired]) -> Finding:
    """What all faults together are likely to cost, worst first, so that a small one is not blamed for a
    collapse."""
    worst = [item for item in fired if item.effect is not None and item.rule.status is not Status.PASS]
    crashes = [item for item in worst if item.effect and item.effect.crash]
    measured = _ranked(worst)
    if not worst:
        return Finding(
            "drafter.outlook",
            Status.PASS,
            "drafter",
            "no fault with a measured effect was found; "
            + f"what files cannot tell: {'; '.join(what for what, _ in NOT_KNOWABLE_THINGS[:3])}",
            owner="user",
        )
    parts = [
        f"{item.rule.check.removeprefix('drafter.')}: {item.effect.sentence()}"
        for item in [*crashes, *measured]
        if item.effect
    ]
    floors = [
        item
        for item in measured
        if item.effect and item.effect.length is not None and item.effect.length < 1.2
    ]
    lengths = [item.effect.length for item in measured if item.effect and item.effect.length is not None]
    message = (
        "worst first: " + "; ".join(dict.fromkeys(parts))
        if parts
        else worst[0].effect.sentence()
        if worst[0].effect
        else ""
    )
    if floors and len(measured) > len(floors):
        message += f". The collapse is explained by {_names(floors)}; the others cost far less"
    cause = (
        "several faults at once hide each other: mending one of them shows no movement"
        if len(worst) > 1
        else None
    )
    return Finding(
        "drafter.outlook",
        Status.FAIL if any(item.rule.status is Status.FAIL for item in worst) else Status.WARN,
        "drafter",
        message,
        value=0 if crashes else min(lengths, default=None),
        limit=HEALTHY_LENGTH,
        unit="tokens, small measured pair",
        cause=cause,
        fix="mend all of them at once, then measure" if len(worst) > 1 else "mend it, then measure",
        owner="user",
    )


def _ranked(fired: Sequence[Fired]) -> list[Fired]:
    measured = [item for item in fired if item.effect is not None and not item.effect.crash]
    return sorted(
        measured,
        key=lambda item: (
            item.effect.length if item.effect and item.effect.length is not None else HEALTHY_LENGTH
        ),
    )


def _names(fired: Sequence[Fired]) -> str:
    return " or ".join(dict.fromkeys(item.rule.check.removeprefix("drafter.") for item in fired))


def facts_of(case: Case, fired: Sequence[Fired]) -> dict[str, Any]:
    """What was derived, for other tools: JSON-ready values only."""
    shape, expected = case.shape, case.expected
    wanted = {
        name: {
            "value": list(known.value) if isinstance(known.value, tuple) else known.value,
            "origin": known.origin,
            "source": known.source,
            "reference": known.reference,
        }
        for name in ("ids", "mask", "theta", "block", "layer_types", "window", "eps")
        if (known := getattr(expected, name)) is not None
    }
    return {
        "drafter": str(case.drafter.path),
        "target": str(case.target.path),
        "kind": case.kind,
        "engine": {
            "name": case.engine.name,
            "version": case.engine.version,
            "runner": case.engine.runner,
            "runner_given": case.engine.runner_given,
        },
        "weights": None
        if shape is None
        else {
            "hidden": shape.hidden,
            "intermediate": shape.intermediate,
            "heads": shape.heads,
            "kv_heads": shape.kv_heads,
            "head_dim": shape.head_dim,
            "layers": shape.layers,
            "captured": case.captured_count,
            "dtype": shape.dtype,
            "tensors": len(case.drafter.tensors),
            "bytes": case.drafter.weights_bytes,
            "header_sha256": list(case.drafter.digests),
        },
        "families": list(expected.families),
        "expected": wanted,
        "captured_layers": list(case.captured_layers or ()),
        "block": block_of(case) if case.is_block else None,
        "k": right_k(case) if case.is_block else None,
        "silent_defaults": silent_defaults(case),
        "notes": list(expected.notes),
        "effects": [
            {
                "check": item.rule.check,
                "rule": item.rule.name,
                "what": item.effect.what,
                "acceptance_length": item.effect.length,
                "first_position": item.effect.first,
                "healthy_length": HEALTHY_LENGTH,
                "crash": item.effect.crash,
                "measured": item.effect.measured,
                "source": item.effect.source,
            }
            for item in fired
            if item.effect is not None
        ],
        "not_knowable": [what for what, _ in NOT_KNOWABLE_THINGS],
    }
