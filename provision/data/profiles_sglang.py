"""Profiles of SGLang. ``num_draft_tokens`` counts the anchor: SGLang's 4 are vLLM's 3."""

from __future__ import annotations

from provision.data.profile_form import BLOCK, DRAFTER, Flag, Profile, Setting

_COOKBOOK = "sgl-project/sgl-cookbook 7b5bd9c, Qwen3.6"
_CODE = "sglang 0.5.11 srt/server_args.py, 0.5.23 srt/arg_groups/speculative_hook.py"
_ADJUSTED = "_handle_speculative_decoding 0.5.11, _handle_eagle_family 0.5.23: topk 1 makes it steps + 1"
_AUTO = "auto_choose_speculative_params 0.5.11, _auto_choose_speculative_params 0.5.23: (3, 1, 4)"
_CHAIN = "one chain of three drafts, checked in one pass: four tokens with the anchor"
_PATH = "the drafter's files"


def _chain(source: str) -> tuple[Flag, ...]:
    """Three drafts in a row: what both versions choose themselves for all but Llama and Grok."""
    return (
        Flag(("--speculative-num-steps", "3"), _CHAIN, source),
        Flag(("--speculative-eagle-topk", "1"), _CHAIN, source),
        Flag(("--speculative-num-draft-tokens", "4"), _CHAIN, f"{source}; {_ADJUSTED}"),
    )


SGLANG = (
    Profile(
        "plain", "sglang", "no speculation: the figure that every speculation has to beat", (), _COOKBOOK
    ),
    Profile(
        "sglang-mtp",
        "sglang",
        "the model's own multi-token-prediction head drafts",
        (
            Flag(
                ("--speculative-algorithm", "EAGLE"), "NEXTN is rewritten to EAGLE", f"{_COOKBOOK}; {_CODE}"
            ),
            *_chain(_COOKBOOK),
            Flag(
                ("--mamba-scheduler-strategy", "extra_buffer"),
                "MTP of a hybrid model needs the second mamba buffer to keep its radix cache",
                f"{_COOKBOOK}; flag present up to 0.5.13",
                "<=0.5.13",
            ),
            Flag(
                ("--mamba-radix-cache-strategy", "extra_buffer"),
                "the same flag under its later name; the old one is an argparse error",
                "sglang 0.5.23 srt/arg_groups/fields, comparison with 0.5.11",
                ">0.5.13",
            ),
        ),
        _COOKBOOK,
        settings=(
            Setting(
                "SGLANG_ENABLE_SPEC_V2",
                "1",
                "off by default in 0.5.10, which then falls back to speculation v1 without overlap",
                "sglang 0.5.10.post1 environ.py: default False; 0.5.11 True; gone in 0.5.23",
                "<0.5.11",
            ),
        ),
    ),
    Profile(
        "sglang-dflash",
        "sglang",
        "a DFlash block drafter",
        (
            Flag(("--speculative-algorithm", "DFLASH"), "the block drafter", _CODE),
            Flag(("--speculative-draft-model-path", DRAFTER), _PATH, _CODE),
            Flag(
                ("--speculative-num-draft-tokens", BLOCK),
                "the block size in the drafter's own config, anchor included; without one SGLang takes 16",
                f"{_CODE}: num_draft_tokens is the block size",
            ),
        ),
        _CODE,
        drafter=True,
        versions=">=0.5.11",
    ),
    Profile(
        "eagle3",
        "sglang",
        "an EAGLE-3 drafter",
        (
            Flag(("--speculative-algorithm", "EAGLE3"), "the drafter's kind", _CODE),
            Flag(("--speculative-draft-model-path", DRAFTER), _PATH, _CODE),
            *_chain(_AUTO),
        ),
        _CODE,
        drafter=True,
    ),
    Profile(
        "draft-model",
        "sglang",
        "a small model of the same vocabulary drafts",
        (
            Flag(
                ("--speculative-algorithm", "STANDALONE"),
                "a model of its own, that takes no hidden states of the target",
                f"{_CODE}; srt/speculative/standalone_worker_v2.py: vocabulary and TP of the target",
            ),
            Flag(("--speculative-draft-model-path", DRAFTER), _PATH, _CODE),
            *_chain(_AUTO),
        ),
        _CODE,
        drafter=True,
    ),
    Profile(
        "ngram",
        "sglang",
        "drafts are copied from the text so far",
        (
            Flag(
                ("--speculative-algorithm", "NGRAM"),
                "twelve draft tokens are its default",
                f"{_CODE}: num_draft_tokens = 12",
            ),
        ),
        _CODE,
    ),
)
