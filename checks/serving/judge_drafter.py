"""Findings about the drafter's files: layers captured, config, tensors, draft length, and graphs of an older config."""

from __future__ import annotations

from checks.model import Finding, Status
from checks.serving import rules_drafter as rules
from checks.serving import rules_layers
from checks.serving.drafterfile import expected_layers, missing_tensors
from checks.serving.evidence import Evidence
from checks.serving.judge_config import make
from checks.serving.opinion import ASK_DRAFTER, Stance, older
from checks.serving.rules_engine import compile_cache
from checks.serving.signs import Signs


def findings(e: Evidence, signs: Signs) -> list[Finding | None]:
    return [
        layers(e, signs),
        drafter_config(e, signs),
        tensors(e),
        draft_tokens(e, signs),
        cache(e, signs),
    ]


def layers(e: Evidence, signs: Signs) -> Finding | None:
    """The layers the engine says it captures, against those the drafter was trained on, in the engine's counting."""
    want, used = expected_layers(e.drafter), e.log.layers
    if want is None or e.settings.engine == "sglang":
        return None
    if used is None:
        if (
            e.drafter.shifted_ids is None
            and e.settings.engine == "vllm"
            and older(e.settings.version, "0.22.0")
        ):
            return make(
                "serve.layers",
                Status.WARN,
                f"vLLM {e.settings.version} reads target_layer_ids one layer early",
                "one_early",
                "put the ids plus one into eagle_aux_hidden_state_layer_ids, or upgrade to 0.22.0",
            )
        return make(
            "serve.layers",
            Status.SKIP,
            "the layers really captured are not in this record",
            None,
            "give the log of the start",
        )
    told = f"layers captured {list(used)}, trained {list(want)} in the engine's counting"
    if faults := rules_layers.layer_faults(e):
        return make("serve.layers", Status.FAIL, f"{told}: {'; '.join(faults)}", "layer_count", None)
    if used == want:
        return make("serve.layers", Status.PASS, told, None, None)
    if sorted(used) == sorted(want):
        return make(
            "serve.layers",
            Status.PASS,
            f"{told}: another order, which vLLM ignores (an engine that honours it would draft garbage)",
            None,
            None,
        )
    if rules_layers.one_early(e, signs).stance is Stance.SUPPORTED:
        return make(
            "serve.layers",
            Status.WARN,
            f"{told}: every one is one layer early, which costs 3-9 % of the length",
            "one_early",
            "put the ids plus one into eagle_aux_hidden_state_layer_ids, or upgrade to 0.22.0",
        )
    return make(
        "serve.layers",
        Status.FAIL,
        told,
        "layer_ids",
        "make the effective ids those of target_layer_ids plus one",
    )


def drafter_config(e: Evidence, signs: Signs) -> Finding | None:
    """Contradictions that the drafter's config shows by itself, or against the target's where that is known."""
    d = e.drafter
    if not d.present:
        return None
    faults = [*rules.mask_faults(e), *rules.vocab_faults(e), *rules_layers.layer_faults(e)]
    doubts: list[str] = []
    measured = e.acceptance is not None and signs.enough
    if differs := rules.rope_against_target(e):
        faults.append(differs)
    elif d.rope is None and d.target_rope is None and (signs.poor_acceptance or not measured):
        (faults if signs.poor_acceptance else doubts).append("no rope_theta, so it silently is 10000")
    if d.target_layers and d.target_depth and d.target_layers != d.target_depth:
        faults.append(f"trained for {d.target_layers} target layers, the target has {d.target_depth}")
    if e.settings.engine == "vllm" and d.windowed and older(e.settings.version, "0.25.0"):
        doubts.append(f"windowed layers, which vLLM {e.settings.version} runs full")
    faults = _once(faults, signs)
    if faults:
        return make(
            "serve.drafter_config",
            Status.FAIL,
            "; ".join(faults + doubts),
            "drafter configuration",
            ASK_DRAFTER,
            "drafter",
        )
    if doubts:
        return make(
            "serve.drafter_config",
            Status.WARN,
            "; ".join(doubts),
            "drafter configuration",
            ASK_DRAFTER,
            "drafter",
        )
    unseen = (
        ""
        if d.target_vocab
        else "; the target's config was not recorded, so rope and vocabulary were not compared with it"
    )
    return make(
        "serve.drafter_config",
        Status.PASS,
        f"nothing in the drafter's config contradicts itself{unseen}",
        None,
        None if d.target_vocab else ASK_DRAFTER,
        "drafter",
    )


def _once(faults: list[str], signs: Signs) -> list[str]:
    """Mask and vocabulary complain of one another; one sentence is enough. An engine that served knew the mask
    token, so the vocabulary is too small; one that died met an id which nobody has."""
    about = [fault for fault in faults if "vocab" in fault and "mask_token_id" in fault]
    if len(about) < 2:
        return faults
    guilty = "mask_token_id" if signs.died else "vocab_size"
    return [fault for fault in faults if fault not in about or fault.startswith(guilty)]


def tensors(e: Evidence) -> Finding | None:
    if not e.drafter.present or not e.drafter.dflash:
        return None
    if e.drafter.tensors is None:
        return make(
            "serve.tensors",
            Status.SKIP,
            "not knowable from this record: the drafter's tensor list is not in it, and a missing tensor "
            "can leave the numbers healthy",
            None,
            ASK_DRAFTER,
            "drafter",
        )
    missing = missing_tensors(e.drafter)
    if missing:
        return make(
            "serve.tensors",
            Status.FAIL,
            f"{len(missing)} tensors are missing: {', '.join(missing[:6])}",
            "tensors",
            "fetch the checkpoint again",
            "drafter",
        )
    return make(
        "serve.tensors", Status.PASS, f"{len(e.drafter.tensors)} tensors, none missing", None, None, "drafter"
    )


def draft_tokens(e: Evidence, signs: Signs) -> Finding | None:
    block, k = e.drafter.block_size, e.k
    if not block or not k or not e.drafter.dflash:
        return None
    told = f"{k} drafted tokens, the drafter's block gives {block - 1}"
    if k > block - 1:
        return make(
            "serve.draft_tokens",
            Status.WARN,
            f"{told}: positions from {block - 1} on are never accepted",
            "k_too_large",
            f"num_speculative_tokens {block - 1}",
            "drafter",
            k,
            block - 1,
        )
    if k < block - 1:
        healthy = (
            f"; position 0 accepts {signs.first:.2f}, so the drafter is healthy"
            if signs.first and not signs.poor_acceptance
            else ""
        )
        return make(
            "serve.draft_tokens",
            Status.WARN,
            f"{told}: the rest of every pass is thrown away{healthy}",
            "k_too_small",
            f"num_speculative_tokens {block - 1}",
            "drafter",
            k,
            block - 1,
        )
    return make("serve.draft_tokens", Status.PASS, told, None, None, "drafter", k, block - 1)


def cache(e: Evidence, signs: Signs) -> Finding | None:
    opinion = compile_cache(e, signs)
    if opinion.stance is Stance.SILENT:
        return None
    if opinion.stance is Stance.EXCLUDED:
        return make("serve.compile_cache", Status.PASS, opinion.because, None, None)
    return make(
        "serve.compile_cache",
        Status.WARN,
        opinion.because,
        "compile_cache",
        "clear ~/.cache/vllm/torch_compile_cache, restart, measure again",
    )
