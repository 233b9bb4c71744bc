"""Block size and k: how many tokens a draft has, and how many the engine is asked for."""

from __future__ import annotations

from checks.data.drafter_defaults import SGLANG_BLOCK_SIZE
from checks.drafter.case import Case
from checks.drafter.rule import Check, Facts, Rule
from checks.model import Status


def block_of(case: Case) -> int | None:
    """The block that the drafter was trained with, as far as anybody says."""
    if case.expected.block is not None:
        return int(case.expected.block.value)
    return case.config.block if case.config else None


def right_k(case: Case) -> int | None:
    """The number to give to this engine: the anchor counts in SGLang, not in vLLM."""
    block = block_of(case)
    if block is None:
        return None
    return block if case.engine.does("k", "block") else block - 1


def absent(case: Case) -> Facts | None:
    if case.config is None or case.config.block is not None:
        return None
    right = case.expected.block
    sglang = case.engine.name == "sglang"
    return {
        "does": f"SGLang takes {SGLANG_BLOCK_SIZE}"
        if sglang
        else "vLLM never reads it, you choose k yourself",
        "fix": f"write block_size {right.value} ({right.origin})"
        if right
        else "ask the publisher; published ones are 16 or 8",
    }


def differs_read(case: Case) -> Facts | None:
    return _differs(case) if case.engine.name != "vllm" else None


def differs_unread(case: Case) -> Facts | None:
    return _differs(case) if case.engine.name == "vllm" else None


def _differs(case: Case) -> Facts | None:
    right, have = case.expected.block, case.config.block if case.config else None
    if right is None or have is None or have == right.value:
        return None
    return {"have": have, "right": right.value, "origin": right.origin, "source": right.source}


def two(case: Case) -> Facts | None:
    if case.config is None or case.config.other_block is None:
        return None
    return {"one": case.config.block, "other": case.config.other_block}


def k_long(case: Case) -> Facts | None:
    right = right_k(case)
    if case.k is None or right is None or case.k <= right:
        return None
    return {"k": case.k, "right": right, "block": block_of(case)}


def k_short(case: Case) -> Facts | None:
    right = right_k(case)
    if case.k is None or right is None or case.k >= right:
        return None
    return {"k": case.k, "right": right, "block": block_of(case)}


def k_uneven(case: Case) -> Facts | None:
    layers = case.goal.mtp_layers
    if case.kind != "mtp" or case.k is None or not layers or case.k <= layers or case.k % layers == 0:
        return None
    return {"k": case.k, "layers": layers}


def _skips(case: Case) -> str | None:
    if not case.is_block:
        return f"{case.kind_name} has no block"
    return "no config.json" if case.config is None else None


def _k_skips(case: Case) -> str | None:
    if case.k is None:
        right = right_k(case)
        return "k was not given" + (f"; the right one here is {right}" if right else "")
    if case.kind == "mtp":
        return None
    return _skips(case)


CHECKS = (
    Check(
        "drafter.block_size",
        "Drafts beyond the trained block are noise.",
        lambda case: (
            f"block_size {block_of(case)}"
            + (f" as in {case.expected.block.source}" if case.expected.block else ", which nobody confirms")
        ),
        skips=_skips,
        value=lambda case: case.config.block if case.config else None,
        limit=lambda case: case.expected.block.value if case.expected.block else None,
    ),
    Check(
        "drafter.k",
        "k is the block less the anchor in vLLM, the whole block in SGLang.",
        lambda case: f"k {case.k} fits",
        skips=_k_skips,
        blind=lambda case: (
            None if case.kind == "mtp" or right_k(case) else "no block size is known, so k cannot be judged"
        ),
        value=lambda case: case.k,
        limit=right_k,
    ),
)

RULES = (
    Rule(
        "block_absent",
        "drafter.block_size",
        Status.WARN,
        absent,
        "block_size is absent; {does}",
        "the weights do not tell it",
        "{fix}",
        "SGLang 0.5.11 dflash_utils; vLLM 0.20.1 and 0.33.0 never read it",
    ),
    Rule(
        "block_differs",
        "drafter.block_size",
        Status.FAIL,
        differs_read,
        "block_size is {have} where {right} was trained",
        "copied from another drafter ({origin}: {source}); this engine drafts by it",
        "write block_size {right}",
        "SGLang 0.5.11 dflash_utils",
        "k_long",
    ),
    Rule(
        "block_differs_unread",
        "drafter.block_size",
        Status.WARN,
        differs_unread,
        "block_size is {have} where {right} was trained; vLLM does not read it, but you choose k by it",
        "copied from another drafter ({origin}: {source})",
        "write block_size {right}",
        "vLLM 0.20.1 and 0.33.0 never read it",
    ),
    Rule(
        "block_two",
        "drafter.block_size",
        Status.WARN,
        two,
        "two block sizes stand in the file: {one} in dflash_config and {other} at the top",
        "engines differ in which they read",
        "leave one",
        "SGLang 0.5.11 dflash_utils reads dflash_config first",
    ),
    Rule(
        "k_long",
        "drafter.k",
        Status.WARN,
        k_long,
        "k {k} goes beyond the trained block of {block}: positions from {right} on are noise",
        "vLLM never compares k with the block; in vLLM the anchor is extra, in SGLang it counts",
        "give {right}",
        "measured on vLLM 0.20.1",
        "k_long",
    ),
    Rule(
        "k_short",
        "drafter.k",
        Status.WARN,
        k_short,
        "k {k} uses only part of the trained block of {block}",
        "a block drafter computes the whole block anyway; a healthy drafter then falls below break-even",
        "give {right}, unless you measured a smaller one to be faster",
        "measured on vLLM 0.20.1",
        "k_short",
    ),
    Rule(
        "k_uneven",
        "drafter.k",
        Status.FAIL,
        k_uneven,
        "k {k} is no multiple of the {layers} prediction layers",
        "vLLM runs the layers in turn and refuses other numbers",
        "give a multiple of {layers}",
        "vLLM speculative config: n_predict",
    ),
)
