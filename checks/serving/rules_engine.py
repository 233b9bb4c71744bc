"""Rules about everything around the drafter: tuning, engine, prompts, machine. Each answers for one cause."""

from __future__ import annotations

from checks.serving.evidence import Evidence
from checks.serving.hostcost import host_cost
from checks.serving.measured import SEQUENTIAL
from checks.serving.opinion import (
    ASK_BASELINE,
    ASK_LOG,
    ASK_OFF,
    DIRECT,
    FITS,
    POSSIBLE,
    SIGNATURE,
    SILENT,
    Opinion,
    excluded,
    older,
    supported,
)
from checks.serving.rules_bands import runner_in_doubt
from checks.serving.rules_layers import off_family
from checks.serving.signs import Signs

CLEAR_CACHE = "clear ~/.cache/vllm/torch_compile_cache, restart, measure again"


def _same_counts(e: Evidence) -> bool:
    base = e.baseline
    if base is None or e.acceptance is None or not base.positions or base.drafts is None:
        return False
    return base.drafts == e.acceptance.drafts and all(
        abs(a - b) < 1e-9 for a, b in zip(base.positions, e.acceptance.positions, strict=False)
    )


def compile_cache(e: Evidence, s: Signs) -> Opinion:
    exposed = (
        e.settings.engine == "vllm"
        and older(e.settings.version, "0.33.0") is not False
        and e.drafter.read_as_written
    )
    if not exposed or e.log.layers is None:
        return SILENT
    if not e.log.warm_cache:
        return excluded("this start compiled its graphs afresh")
    base = e.baseline
    if base is not None and base.layers and base.layers != e.log.layers:
        if _same_counts(e):
            return supported(
                DIRECT + 0.02,
                f"the log says layers {list(e.log.layers)}, every counter equals the baseline's "
                f"run with {list(base.layers)}: the old graph is still in use",
            )
        if set(base.cache_dirs) & set(e.log.cache_dirs):
            return supported(0.9, "other layer ids, the same cache directory, graphs loaded from it")
    if others := [
        start.layers
        for start in e.log.earlier
        if start.layers != e.log.layers and set(start.cache_dirs) & set(e.log.cache_dirs)
    ]:
        return supported(
            0.9,
            f"this log shows an earlier start with layers {list(others[-1])} and the same cache directory, and this"
            f" start, with {list(e.log.layers)}, loaded its graphs from there: the ids were changed under a warm"
            " compile cache",
            CLEAR_CACHE,
        )
    edited = off_family(e) is not None and older(e.settings.version, "0.22.0") is True
    if not edited and not s.poor_acceptance:
        return excluded("nothing points at an edit of the layer ids since the graphs were compiled")
    # Ids off the rule were written by somebody, and until the cache is cleared nothing measured speaks of them.
    return supported(
        POSSIBLE if s.dead else 0.72 if edited else 0.4,
        "graphs were loaded from a warm compile cache whose key does not cover target_layer_ids: if the ids were"
        " edited since it was filled, this is the measurement of the old ones; clear it and measure again",
        CLEAR_CACHE,
    )


def runner_v2(e: Evidence, s: Signs) -> Opinion:
    if not s.dead or e.settings.engine != "vllm":
        return SILENT
    if e.settings.get("runner") == "v1":
        return excluded("the V1 runner is in use")
    if not runner_in_doubt(e):
        return SILENT
    return supported(
        0.45,
        "some drafters accept nothing on the V2 runner and work on V1",
        "the same start with VLLM_USE_V2_MODEL_RUNNER=0",
    )


def upgrade(e: Evidence, s: Signs) -> Opinion:
    base = e.baseline
    if (
        base is None
        or not (s.shorter or s.dead)
        or base.engine != e.settings.engine
        or base.method != e.method
    ):
        return SILENT
    if not base.version or not e.settings.version or base.version == e.settings.version:
        return SILENT
    return supported(
        0.75,
        f"{base.engine} {base.version} had {base.length or 0:.2f} with the same method, "
        f"{e.settings.version} has {e.acceptance.length if e.acceptance else 0:.2f}",
        "the same files on the older version",
    )


def thinking(e: Evidence, s: Signs) -> Opinion:
    mode, base = e.window.get("thinking"), e.baseline.thinking if e.baseline else None
    if s.dead or not (s.weak or s.shorter or s.below_reference):
        return SILENT
    if isinstance(mode, bool) and base is not None and mode != base:
        return supported(SIGNATURE, f"thinking was {_on(mode)}, in the baseline {_on(base)}")
    if isinstance(mode, bool) and base is not None:
        return excluded(f"thinking was {_on(mode)}, as in the baseline")
    return supported(
        POSSIBLE,
        "thinking mode or another chat template moves acceptance (25 % to 60 % in a public case)",
        "provcheck serve URL --thinking off, and on",
    )


def prompts(e: Evidence, s: Signs) -> Opinion:
    if s.dead or not (s.weak or s.shorter or s.below_reference):
        return SILENT
    if e.window.get("prompts") == "shipped":
        return excluded("measured with the fixed prompts")
    return supported(
        POSSIBLE,
        "the counts come from prompts of unknown kind; random text gives a meaningless length",
        "provcheck serve URL (its fixed code and prose prompts)",
    )


def k_too_large(e: Evidence, s: Signs) -> Opinion:
    best, k = e.drafter.best_k, e.k
    if best and k and k > best:
        return supported(
            DIRECT if s.cut or not s.poor_acceptance else 0.45,
            f"{k} tokens are drafted, the drafter was trained on blocks of {best + 1}: positions from"
            f" {best} on are wasted",
        )
    if s.cut and e.curve and e.curve.cut_at and not best:
        return supported(
            0.6,
            f"nothing is accepted from position {e.curve.cut_at} on",
            "block_size in the drafter's config",
        )
    if s.cut:
        return excluded(f"{k} drafted tokens fit the block of {(best or 0) + 1}")
    return SILENT


def k_too_small(e: Evidence, s: Signs) -> Opinion:
    best, k = e.drafter.best_k, e.k
    if not best or not k or k >= best:
        return SILENT
    weight = 0.85 if not s.poor_acceptance else POSSIBLE
    return supported(weight, f"{k} of the {best} tokens that one draft pass yields are used")


def draft_cost(e: Evidence, s: Signs) -> Opinion:
    if e.method not in SEQUENTIAL or e.acceptance is None or s.dead:
        return SILENT
    even = e.break_even
    if even is not None:
        if even > e.acceptance.length:
            return supported(
                0.9, f"a step costs {even:.1f} plain tokens and yields {e.acceptance.length:.2f}"
            )
        return excluded(f"a step costs {even:.1f} plain tokens and yields {e.acceptance.length:.2f}")
    if e.method == "draft_model" and e.k and (e.acceptance.length - 1) / e.k < 0.5:
        wasted = (
            f"a draft model runs {e.k} passes per step and {1 - (e.acceptance.length - 1) / e.k:.0%} of them"
            " are thrown away"
        )
        step = e.speed.ms_per_step if e.speed else None
        if step is None:
            return supported(FITS, f"{wasted}; whether that pays was not measured", ASK_OFF)
        pays = f"it pays only if a plain token takes over {step / e.acceptance.length:.1f} ms"
        cost = host_cost(e)
        if cost is not None and cost.model_ms < step / (e.k + 1):
            return supported(
                SIGNATURE,
                f"{wasted}: {pays}, and of a model this small ({cost.source}) each of the {e.k + 1} passes costs the"
                f" host alike, here {step / (e.k + 1):.1f} ms: a net loss, about"
                f" {e.acceptance.length / (e.k + 1):.2f}x of speculation off",
                ASK_OFF,
            )
        return supported(FITS, f"{wasted}: {pays}; a net loss otherwise, which was not measured", ASK_OFF)
    return SILENT


def break_even(e: Evidence, s: Signs) -> Opinion:
    if e.off_ratio is None or e.break_even is None or e.acceptance is None:
        return SILENT
    if e.off_ratio >= 1:
        return excluded(
            f"{e.off_ratio:.2f}x of speculation off; break-even is a length of {e.break_even:.2f}"
        )
    if s.dead or s.cliff or s.slow_step or e.method == "draft_model":
        return SILENT
    return supported(
        0.75,
        f"{e.off_ratio:.2f}x of speculation off: a step costs {e.break_even:.2f} plain tokens, "
        f"the length is {e.acceptance.length:.2f}",
    )


def not_speculating(e: Evidence, s: Signs) -> Opinion:
    if not s.not_speculating:
        return SILENT
    return supported(
        DIRECT,
        "speculation was asked for and the engine counts no drafts: the drafter was not found or the option"
        " not read",
        ASK_LOG,
    )


def foreign_baseline(e: Evidence, s: Signs) -> Opinion:
    base = e.baseline
    if base is None or not base.engine or not e.settings.engine or base.engine == e.settings.engine:
        return SILENT
    return supported(
        0.2,
        f"the baseline is of {base.engine}: acceptance rates and milliseconds per step do not compare, "
        "tokens/s and lengths do",
        ASK_BASELINE,
    )


def device_assert(e: Evidence, s: Signs) -> Opinion:
    if not any(error.row == "device_assert" for error in e.log.errors):
        return SILENT
    xid = (
        " The kernel's Xid 43 names the engine: an application error, not a hardware fault."
        if e.log.xids
        else ""
    )
    return supported(
        0.45,
        "a kernel met an index out of bounds; which one is not in the log." + xid,
        "the same start with CUDA_LAUNCH_BLOCKING=1",
    )


def _on(value: bool | None) -> str:
    return "on" if value else "off"
