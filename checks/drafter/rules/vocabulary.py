"""Vocabulary, number of target layers, tokenizer: is this the drafter of this target?"""

from __future__ import annotations

from checks.drafter.case import Case
from checks.drafter.rule import Check, Facts, Rule
from checks.drafter.weights import plain_names
from checks.model import Status


def _how(case: Case) -> str:
    return "" if case.config is None or case.config.vocab is not None else " (absent, so the silent default)"


def _sizes(case: Case) -> tuple[int, int] | None:
    have, want = case.config.effective_vocab if case.config else None, case.goal.vocab
    return None if have is None or want is None else (have, want)


def smaller(case: Case) -> Facts | None:
    sizes = _sizes(case)
    if sizes is None or sizes[0] >= sizes[1]:
        return None
    return {"have": sizes[0], "want": sizes[1], "how": _how(case)}


def larger(case: Case) -> Facts | None:
    sizes = _sizes(case)
    if sizes is None or sizes[0] <= sizes[1]:
        return None
    return {"have": sizes[0], "want": sizes[1], "how": _how(case)}


def reduced_without_map(case: Case) -> Facts | None:
    config = case.config
    if (
        config is None
        or config.draft_vocab is None
        or config.draft_vocab == case.goal.vocab
        or case.shape is None
    ):
        return None
    names = plain_names(case.drafter.tensors)
    return None if "d2t" in names or "draft_id_to_target_id" in names else {"draft": config.draft_vocab}


def table_differs(case: Case) -> Facts | None:
    rows = case.shape.vocab if case.shape else None
    wanted = {
        case.goal.vocab,
        case.config.draft_vocab if case.config else None,
        case.config.effective_vocab if case.config else None,
    }
    if rows is None or rows in wanted or case.goal.vocab is None:
        return None
    return {"rows": rows, "want": case.goal.vocab}


def other_depth(case: Case) -> Facts | None:
    have, want = case.config.num_target_layers if case.config else None, case.goal.layers
    if have is None or want is None or have == want:
        return None
    return {"have": have, "want": want}


def depth_absent(case: Case) -> Facts | None:
    if case.config is None or case.config.num_target_layers is not None or case.config.fmt != "hf":
        return None
    return {"want": case.goal.layers}


def other_tokens(case: Case) -> Facts | None:
    mine, theirs = case.drafter.tokens, case.target.tokens
    if mine is None or theirs is None or not mine.added or not theirs.added:
        return None
    differ = sorted(n for n in mine.added.keys() & theirs.added.keys() if mine.added[n] != theirs.added[n])
    return {"differ": differ[:5], "count": len(differ)} if differ else None


def _skips(case: Case) -> str | None:
    if case.kind == "mtp":
        return "the drafter is part of the target"
    return "no config.json" if case.config is None else None


CHECKS = (
    Check(
        "drafter.vocab",
        "Drafted ids are the target's ids; a smaller vocabulary never proposes the rest, a larger "
        "one kills the engine.",
        lambda case: f"both have {case.goal.vocab} tokens",
        skips=_skips,
        blind=lambda case: (
            None if _sizes(case) else "a vocabulary size is in neither the config nor the known defaults"
        ),
        value=lambda case: case.config.effective_vocab if case.config else None,
        limit=lambda case: case.goal.vocab,
    ),
    Check(
        "drafter.num_target_layers",
        "A drafter belongs to one target; its config says how deep that is.",
        lambda case: (
            f"made for a target of {case.goal.layers} layers"
            if case.config and case.config.num_target_layers
            else "this format does not say how deep the target is"
        ),
        skips=lambda case: _skips(case) or (None if case.is_block else f"{case.kind_name} does not say"),
        blind=lambda case: None if case.goal.layers else "the target's config gives no number of layers",
        value=lambda case: case.config.num_target_layers if case.config else None,
        limit=lambda case: case.goal.layers,
    ),
    Check(
        "drafter.tokenizer",
        "Equal ids must mean equal tokens.",
        lambda case: "added tokens agree in drafter and target",
        skips=lambda case: (
            _skips(case)
            or (
                None
                if case.drafter.tokens
                and case.target.tokens
                and case.drafter.tokens.added
                and case.target.tokens.added
                else "the drafter brings no tokenizer to compare; engines use the target's"
            )
        ),
    ),
)

RULES = (
    Rule(
        "vocab_smaller",
        "drafter.vocab",
        Status.FAIL,
        smaller,
        "vocab_size {have}{how} is smaller than the target's {want}: ids from {have} on are never proposed",
        "copied from another family, or left out (Qwen3 has 151936, Qwen3.5 and 3.6 have 248320); "
        "metrics look healthy",
        "write vocab_size {want}",
        "measured on vLLM 0.20.1",
        "vocab_small",
    ),
    Rule(
        "vocab_larger",
        "drafter.vocab",
        Status.FAIL,
        larger,
        "vocab_size {have}{how} is larger than the target's {want}",
        "copied from another family, or left out",
        "write vocab_size {want}",
        "measured on vLLM 0.20.1",
        "vocab_large",
    ),
    Rule(
        "vocab_reduced",
        "drafter.vocab",
        Status.FAIL,
        reduced_without_map,
        "draft_vocab_size {draft} is not the target's, and the weights hold no d2t table",
        "without the table drafted ids mean other tokens",
        "get the complete checkpoint, or remove draft_vocab_size if the drafter uses the target's head",
        "vLLM qwen3_dflash.py draft_id_to_target_id",
    ),
    Rule(
        "vocab_table",
        "drafter.vocab",
        Status.FAIL,
        table_differs,
        "the weights' token table has {rows} rows, the target {want}",
        "these weights belong to a target of another family",
        "use the drafter made for this target",
        "vLLM 0.20.1: size mismatch at load",
    ),
    Rule(
        "target_depth",
        "drafter.num_target_layers",
        Status.FAIL,
        other_depth,
        "num_target_layers is {have}, the target has {want}",
        "the drafter was made for another target, or the config was copied from one that was; "
        "engines do not refuse it",
        "check that this is the drafter of this target, then write {want}",
        "SGLang 0.5.11 only warns; measured: a foreign drafter",
        "wrong_target",
    ),
    Rule(
        "target_depth_absent",
        "drafter.num_target_layers",
        Status.WARN,
        depth_absent,
        "num_target_layers is absent",
        "the only field that says for how deep a target the drafter was made; the reference code "
        "fails without it",
        "write num_target_layers {want}",
        "dflash 0.1.0 DFlashDraftModel",
    ),
    Rule(
        "tokenizer_differs",
        "drafter.tokenizer",
        Status.FAIL,
        other_tokens,
        "{count} added tokens differ between drafter and target, for example ids {differ}",
        "the drafter was made for another tokenizer",
        "use the drafter made for this target",
        "measured: a foreign drafter",
        "wrong_target",
    ),
)
