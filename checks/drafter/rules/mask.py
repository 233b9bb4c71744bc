"""The mask token: is it there, within the vocabulary, none that the target emits, and the one used in
training?"""

from __future__ import annotations

from checks.data.drafter_effects import Effect, effect
from checks.drafter.case import Case
from checks.drafter.rule import Check, Facts, Rule
from checks.model import Status

TEMPLATE_TOKENS = (
    "<|im_start|>",
    "<|im_end|>",
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "<|eot_id|>",
)
"""Tokens that chat templates emit all the time (Qwen3, Llama 3)."""


def _vocabulary(case: Case) -> int | None:
    return case.goal.vocab


def _confirmed(case: Case) -> bool:
    right, config = case.expected.mask, case.config
    return right is not None and config is not None and config.mask == right.value


def _hinted(case: Case) -> bool:
    hint, config = case.expected.mask_hint, case.config
    return hint is not None and config is not None and config.mask == hint.value


def missing(case: Case) -> Facts | None:
    if case.config is None or case.config.mask is not None:
        return None
    does = case.engine.ability("mask_missing")
    right = case.expected.mask
    return {
        "does": does.source if does else "what this engine then does is not known",
        "fix": f"write mask_token_id {right.value} ({right.origin}: {right.source})"
        if right
        else "get the id from the publisher or from a sibling's config (--siblings); a guess costs "
        "everything",
    }


def beyond(case: Case) -> Facts | None:
    vocab, mask = _vocabulary(case), case.config.mask if case.config else None
    if vocab is None or mask is None or mask < vocab:
        return None
    return {"mask": mask, "vocab": vocab}


def is_end(case: Case) -> Facts | None:
    mask = case.config.mask if case.config else None
    if mask is None or _confirmed(case) or mask not in (*case.goal.eos, *case.goal.bos):
        return None
    return {"mask": mask, "what": "end-of-text" if mask in case.goal.eos else "begin-of-text"}


def is_ordinary(case: Case) -> Facts | None:
    if case.config is None or case.config.mask is None or not case.mask_ordinary or _confirmed(case):
        return None
    return {"mask": case.config.mask}


def is_template(case: Case) -> Facts | None:
    if case.config is None or case.mask_text not in TEMPLATE_TOKENS or _confirmed(case):
        return None
    return {"mask": case.config.mask, "text": case.mask_text}


def elsewhere(case: Case) -> Facts | None:
    """The id stands at the top level only, and this engine is known, or not known otherwise, to read
    dflash_config."""
    config = case.config
    if config is None or config.fmt != "hf" or config.mask_field != "mask_token_id":
        return None
    return {"engine": case.engine, "mask": config.mask}


def elsewhere_unread(case: Case) -> Facts | None:
    return elsewhere(case) if case.engine.does("mask_top", "unread") else None


def elsewhere_unsure(case: Case) -> Facts | None:
    return elsewhere(case) if case.engine.ability("mask_top") is None else None


def off_relatives(case: Case) -> Facts | None:
    """Nobody knows this drafter, but every published one with this vocabulary has another mask."""
    hint, mask = case.expected.mask_hint, case.config.mask if case.config else None
    if case.expected.mask is not None or hint is None or mask is None or mask == hint.value:
        return None
    return {"mask": mask, "hint": hint.value, "source": hint.source}


def missing_effect(case: Case) -> Effect | None:
    """Engines that invent an id go on with an unused one."""
    return effect("mask_unused" if case.engine.does("mask_missing", "invents") else "mask_missing")


def off(case: Case) -> Facts | None:
    right, mask = case.expected.mask, case.config.mask if case.config else None
    if right is None or mask is None or mask == right.value:
        return None
    return {"mask": mask, "right": right.value, "origin": right.origin, "source": right.source}


def two(case: Case) -> Facts | None:
    if case.config is None or case.config.other_mask is None:
        return None
    return {"one": case.config.mask, "other": case.config.other_mask}


def off_effect(case: Case) -> Effect | None:
    if is_end(case):
        return effect("mask_eos")
    return effect("mask_ordinary" if case.mask_ordinary else "mask_unused")


def _blind(case: Case) -> str | None:
    if case.config is None or case.config.mask is None or _confirmed(case) or _hinted(case):
        return None
    if _vocabulary(case) is None:
        return "the target's config gives no vocabulary size, so the mask id cannot be judged"
    if case.mask_ordinary is None and case.mask_text is None:
        return (
            f"mask id {case.config.mask} is confirmed by nobody, and without the target's "
            "tokenizer.json nobody can say "
            "whether the target emits it; fetch tokenizer.json and tokenizer_config.json, or try --siblings"
        )
    return None


def _passes(case: Case) -> str:
    mask = case.config.mask if case.config else None
    if _confirmed(case) and case.expected.mask:
        return f"mask id {mask} is that of {case.expected.mask.source} ({case.expected.mask.origin})"
    if _hinted(case) and case.expected.mask_hint:
        return f"mask id {mask} is that of {case.expected.mask_hint.source}"
    return (
        f"mask id {mask} is below the vocabulary and never emitted; whether it is the one used in training "
        "cannot be known from files"
    )


def _skips(case: Case) -> str | None:
    if not case.is_block:
        return f"{case.kind_name} has no mask token"
    return "no config.json" if case.config is None else None


CHECKS = (
    Check(
        "drafter.mask",
        "Every drafted position starts as the mask token; a wrong id kills the first position already.",
        _passes,
        skips=_skips,
        blind=_blind,
        value=lambda case: case.config.mask if case.config else None,
        limit=lambda case: case.expected.mask.value if case.expected.mask else None,
    ),
)

RULES = (
    Rule(
        "mask_missing",
        "drafter.mask",
        Status.FAIL,
        missing,
        "the config has no mask_token_id",
        "{does}",
        "{fix}",
        "measured on vLLM 0.20.1; SGLang 0.5.11 code",
        missing_effect,
    ),
    Rule(
        "mask_beyond",
        "drafter.mask",
        Status.FAIL,
        beyond,
        "mask id {mask} is beyond the target's vocabulary of {vocab}",
        "no row of the embedding belongs to it; the Xid 43 that follows is the application's, not "
        "the hardware's",
        "use an id below {vocab}: the one used in training",
        "measured on vLLM 0.20.1; SGLang refuses",
        "mask_range",
    ),
    Rule(
        "mask_is_end",
        "drafter.mask",
        Status.FAIL,
        is_end,
        "mask id {mask} is the target's {what} token",
        "a guess: the drafter then reads every masked position as an end",
        "use the id used in training; the family's or a sibling's config has it",
        "measured on vLLM 0.20.1",
        "mask_eos",
    ),
    Rule(
        "mask_is_ordinary",
        "drafter.mask",
        Status.FAIL,
        is_ordinary,
        "mask id {mask} is an ordinary token that the target emits",
        "trained mask tokens are ids that the tokenizer never gives out",
        "use the id used in training; the family's or a sibling's config has it",
        "measured on vLLM 0.20.1",
        "mask_ordinary",
    ),
    Rule(
        "mask_is_template",
        "drafter.mask",
        Status.FAIL,
        is_template,
        "mask id {mask} is {text}, which the chat template emits",
        "a guess from the list of special tokens",
        "use the id used in training; the family's or a sibling's config has it",
        "measured on vLLM 0.20.1 with end-of-text",
        "mask_eos",
    ),
    Rule(
        "mask_off",
        "drafter.mask",
        Status.FAIL,
        off,
        "mask id {mask} where {right} was trained",
        "another id was guessed or copied ({origin}: {source}); this alone makes a dead drafter",
        "write mask_token_id {right}",
        "measured on vLLM 0.20.1",
        off_effect,
    ),
    Rule(
        "mask_elsewhere",
        "drafter.mask",
        Status.FAIL,
        elsewhere_unread,
        "mask_token_id {mask} stands at the top level, where {engine} does not look",
        "it reads dflash_config.mask_token_id; without one vLLM refuses to start and SGLang makes an id up",
        "move it into dflash_config",
        "vLLM 0.20.1; SGLang 0.5.11 dflash_utils",
        missing_effect,
    ),
    Rule(
        "mask_elsewhere_unsure",
        "drafter.mask",
        Status.WARN,
        elsewhere_unsure,
        "mask_token_id {mask} stands at the top level; whether {engine} looks there is not known",
        "vLLM 0.20.1 does not, 0.33.0 does",
        "move it into dflash_config",
        "vLLM 0.20.1 and 0.33.0",
    ),
    Rule(
        "mask_off_relatives",
        "drafter.mask",
        Status.WARN,
        off_relatives,
        "mask id {mask} differs from the {hint} of {source}",
        "this drafter is in no table, so it may be right; drafters for one vocabulary usually share the mask",
        "compare with the publisher's config",
        "checks/data/drafter_families.py",
        off_effect,
    ),
    Rule(
        "mask_two",
        "drafter.mask",
        Status.WARN,
        two,
        "two mask ids stand in the file: {one} in dflash_config and {other} at the top",
        "engines differ in which they read",
        "leave one",
        "vLLM 0.33.0 reads both places",
    ),
)
