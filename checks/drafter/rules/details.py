"""Smaller fields that the engine does use: norm epsilon, activation, positions, model type, architecture."""

from __future__ import annotations

from checks.data.drafter_defaults import DEFAULTS
from checks.drafter.case import Case
from checks.drafter.rule import Check, Facts, Rule
from checks.model import Status

ARCHITECTURES = {"dflash": ("DFlashDraftModel",), "dflash2": ("DFlash2DraftModel",)}


def eps_differs(case: Case) -> Facts | None:
    right, config = case.expected.eps, case.config
    if config is None or right is None:
        return None
    silent = config.silently("rms_norm_eps")
    have = (
        config.eps if config.eps is not None else float(silent) if isinstance(silent, (int, float)) else None
    )
    if have is None or abs(have - right.value) <= 1e-3 * right.value:
        return None
    return {"have": f"{have:g}", "right": f"{right.value:g}", "origin": right.origin}


def act_differs(case: Case) -> Facts | None:
    have, want = case.config.act if case.config else None, case.goal.act
    return None if have is None or want is None or have == want else {"have": have, "want": want}


def positions_short(case: Case) -> Facts | None:
    config, need = case.config, case.context or case.goal.max_positions
    if config is None or need is None:
        return None
    silent = config.silently("max_position_embeddings")
    have = (
        config.max_positions
        if config.max_positions is not None
        else silent
        if isinstance(silent, int)
        else None
    )
    if have is None or have >= need:
        return None
    how = "" if config.max_positions is not None else " (absent, so the silent default)"
    return {"have": have, "need": need, "how": how}


def no_type(case: Case) -> Facts | None:
    return (
        {} if case.config is not None and case.config.model_type is None and case.config.fmt == "hf" else None
    )


def odd_type(case: Case) -> Facts | None:
    kind = case.config.model_type if case.config else None
    if kind is None or case.config is None or case.config.fmt != "hf" or kind.startswith("qwen3"):
        return None
    return {"kind": kind, "known": ", ".join(DEFAULTS)}


def architecture_wrong(case: Case) -> Facts | None:
    config = case.config
    if config is None or config.fmt != "hf" or not case.is_block:
        return None
    wanted = ARCHITECTURES[case.kind]
    if any(name in wanted for name in config.architectures):
        return None
    return {"have": list(config.architectures) or "absent", "want": wanted[0]}


def _skips(case: Case) -> str | None:
    if not case.is_block:
        return f"{case.kind_name} has its own architecture"
    return "no config.json" if case.config is None else None


CHECKS = (
    Check(
        "drafter.architecture",
        "The engine picks its code by architectures, transformers its defaults by model_type.",
        lambda case: (
            f"architecture {list(case.config.architectures) if case.config else ''}, model_type "
            f"{case.config.model_type if case.config else ''}"
        ),
        skips=_skips,
    ),
    Check(
        "drafter.norm_eps",
        "The norm's epsilon is part of what was trained.",
        lambda case: "rms_norm_eps agrees",
        skips=lambda case: (
            _skips(case)
            or (None if case.expected.eps else "neither the target nor a relative gives rms_norm_eps")
        ),
    ),
    Check(
        "drafter.activation",
        "Drafters take over the activation of their target.",
        lambda case: "hidden_act agrees with the target or is not stated",
        skips=_skips,
    ),
    Check(
        "drafter.positions",
        "Positions beyond the drafter's rotary table are not defined.",
        lambda case: "the drafter covers the positions that the target serves",
        skips=_skips,
        value=lambda case: case.config.max_positions if case.config else None,
        limit=lambda case: case.context or case.goal.max_positions,
    ),
)

RULES = (
    Rule(
        "eps_differs",
        "drafter.norm_eps",
        Status.WARN,
        eps_differs,
        "rms_norm_eps is {have}, the {origin} has {right}",
        "copied from another family, or left out",
        "write rms_norm_eps {right}",
        "published drafters carry their target's value (LFM2.5 1e-5, Qwen3 1e-6)",
    ),
    Rule(
        "act_differs",
        "drafter.activation",
        Status.WARN,
        act_differs,
        "hidden_act is {have}, the target has {want}",
        "copied from another family",
        "write the activation that the drafter was trained with",
        "published drafters carry their target's value",
    ),
    Rule(
        "positions_short",
        "drafter.positions",
        Status.WARN,
        positions_short,
        "max_position_embeddings {have}{how} is less than the {need} positions served",
        "drafts beyond it are undefined or the engine limits the drafter",
        "write the target's value, or serve at most {have} (--context says what you serve)",
        "transformers 5.6.0 configuration_qwen3.py; vLLM DFlashQwen3Attention max_position",
    ),
    Rule(
        "type_absent",
        "drafter.architecture",
        Status.FAIL,
        no_type,
        "model_type is absent",
        "transformers then does not know which config class to use and refuses the file",
        'write "model_type": "qwen3"',
        "transformers 5.6.0 AutoConfig",
    ),
    Rule(
        "type_odd",
        "drafter.architecture",
        Status.WARN,
        odd_type,
        "model_type is {kind}; published DFlash drafters are qwen3",
        "another config class fills in other silent defaults (known here: {known})",
        "write the publisher's model_type",
        "sgl-project/SpecForge configs",
    ),
    Rule(
        "architecture_wrong",
        "drafter.architecture",
        Status.FAIL,
        architecture_wrong,
        "architectures is {have}, the tensors are those of {want}",
        "the engine then loads other code or refuses",
        'write "architectures": ["{want}"]',
        "vLLM registry; recorded runs",
    ),
)
