"""Findings about the drafter's files: layers captured, config, tensors, draft length, and graphs of an older config."""

from __future__ import annotations

from checks.model import Finding, Status
from checks.serving import rules_drafter as rules
from checks.serving import rules_layers
from checks.serving.evidence import Evidence
from checks.serving.judge_config import make
from checks.serving.opinion import ASK_DRAFTER, Stance
from checks.serving.rules_bands import healthy
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
    want, used = e.drafter.trained, e.log.layers
    if want is None or not e.drafter.dflash or e.settings.engine == "sglang":
        return None
    if used is None:
        if e.drafter.unshifted:
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
    if rules_layers.all_one_early(want, used):
        return make(
            "serve.layers",
            Status.WARN,
            f"{told}: every one is one layer early, which costs 3-9 % of the length",
            "one_early",
            "put the ids plus one into eagle_aux_hidden_state_layer_ids, or upgrade to 0.22.0",
        )
    unusual = rules_layers.off_family(e)
    as_written = healthy(e, signs) and sorted(used) == sorted(e.drafter.meant or ())
    return make(
        "serve.layers",
        Status.WARN if as_written else Status.FAIL,
        f"{told}: {unusual}" if unusual else told,
        "layer_ids",
        f"make the effective ids {list(want)}",
    )


_SILENT = (
    "drafter.mask",
    "drafter.rope",
    "drafter.vocab",
    "drafter.num_target_layers",
    "drafter.tokenizer",
    "drafter.ids_order",
    "drafter.ids_family",
    "drafter.window",
    "drafter.geometry",
    "drafter.target_width",
)
"""Checks of the doctor whose faults an engine runs with and says nothing; a file that it refuses is another matter."""

_HARMLESS = frozenset({"target_depth_absent", "ids_not_rising_sorted"})
"""What the doctor would have a file say for other engines: no doubt about a service that runs."""


def drafter_config(e: Evidence, signs: Signs) -> Finding | None:
    """What the drafter doctor says of the files, and what a config without its target contradicts by itself."""
    d = e.drafter
    if not d.present:
        return None
    judged = (*_SILENT, *(() if e.log.layers else ("drafter.ids_convention",)))
    measured = e.acceptance is not None and signs.enough
    sure = signs.poor_acceptance or signs.died or not measured
    well = healthy(e, signs)
    faults = [*rules.mask_faults(e, signs), *rules.vocab_faults(e), *rules_layers.layer_faults(e)]
    doubts: list[str] = []
    fixes: list[str] = []
    if d.dflash:
        faults += d.told(judged, (Status.FAIL,), healthy=well)
        doubts += _doubts(e, judged) if sure else d.told(("drafter.ids_family",), (Status.FAIL,))
        doubts += [told for told in (d.windows_ignored,) if told]
        fixes = d.fixes((*judged, "drafter.ids_count", "drafter.ids_range"), (Status.FAIL,))
    if (told := rules.silent_rope(e)) and not _theta_known(e) and sure:
        (faults if signs.poor_acceptance else doubts).append(told)
    faults, doubts = _once(list(dict.fromkeys(faults)), signs), list(dict.fromkeys(doubts))
    doubts = [doubt for doubt in doubts if doubt not in faults]
    if faults or doubts:
        return make(
            "serve.drafter_config",
            Status.FAIL if faults else Status.WARN,
            "; ".join([*faults, *doubts]),
            "drafter configuration",
            "; ".join([*fixes[:4], ASK_DRAFTER]),
            "drafter",
        )
    unseen = "; the target's config was not recorded, so rope and vocabulary were not compared with it"
    return make(
        "serve.drafter_config",
        Status.PASS,
        "nothing in the drafter's config contradicts itself" + ("" if d.target_known else unseen),
        None,
        None if d.target_known else ASK_DRAFTER,
        "drafter",
    )


def _doubts(e: Evidence, judged: tuple[str, ...]) -> list[str]:
    """Warnings that healthy numbers would refute, so they are told only where the numbers do not."""
    return [
        item.message
        for item in e.drafter.fired
        if item.rule.check in judged and item.rule.status is Status.WARN and item.rule.name not in _HARMLESS
    ]


def _theta_known(e: Evidence) -> bool:
    return bool(e.drafter.case and e.drafter.case.expected.theta)


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
    if wrong := e.drafter.told(("drafter.tensors",), (Status.FAIL,)):
        fixes = e.drafter.fixes(("drafter.tensors",), (Status.FAIL,))
        return make("serve.tensors", Status.FAIL, "; ".join(wrong), "tensors", "; ".join(fixes), "drafter")
    told = f"{len(e.drafter.tensors)} tensors, none missing"
    return make("serve.tensors", Status.PASS, told, None, None, "drafter")


def draft_tokens(e: Evidence, signs: Signs) -> Finding | None:
    best, k = e.drafter.best_k, e.k
    if not best or not k:
        return None
    told = f"{k} drafted tokens, the drafter's block gives {best}"
    if k > best:
        return make(
            "serve.draft_tokens",
            Status.WARN,
            f"{told}: positions from {best} on are never accepted",
            "k_too_large",
            f"num_speculative_tokens {best}",
            "drafter",
            k,
            best,
        )
    if k < best:
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
            f"num_speculative_tokens {best}",
            "drafter",
            k,
            best,
        )
    return make("serve.draft_tokens", Status.PASS, told, None, None, "drafter", k, best)


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
