"""Rules about everything around the drafter: tuning, engine, prompts, machine. Each answers for one cause."""

from __future__ import annotations

from checks.data.settings_map import SETTINGS
from checks.serving.evidence import SEQUENTIAL, Evidence
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
    unknown,
)
from checks.serving.signs import Signs

ACCEPTANCE_IS_COUNTED = (
    "acceptance counts tokens, not time: graphs off left 4.11 and a starved CPU 4.04 of 3.99, so it cannot"
    " lower it"
)


def _same_counts(e: Evidence) -> bool:
    base = e.baseline
    if base is None or e.acceptance is None or not base.positions or base.drafts is None:
        return False
    return base.drafts == e.acceptance.drafts and all(
        abs(a - b) < 1e-9 for a, b in zip(base.positions, e.acceptance.positions, strict=False)
    )


def compile_cache(e: Evidence, s: Signs) -> Opinion:
    by_file = e.drafter.ids is not None and e.drafter.shifted_ids is None
    exposed = e.settings.engine == "vllm" and older(e.settings.version, "0.33.0") is not False and by_file
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
    return supported(
        0.4,
        "graphs were loaded from a cache whose key does not cover target_layer_ids: if the ids were edited "
        "since it was filled, this is the measurement of the old ones",
        "clear ~/.cache/vllm/torch_compile_cache, restart, measure again",
    )


def runner_v2(e: Evidence, s: Signs) -> Opinion:
    if e.settings.engine != "vllm" or not s.dead or older(e.settings.version, "0.24.0") is not False:
        return SILENT
    if e.settings.get("runner") == "v1":
        return excluded("the V1 runner is in use")
    return supported(
        FITS,
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
    if not (s.weak or s.shorter or s.below_reference):
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
    if not (s.weak or s.shorter or s.below_reference):
        return SILENT
    if e.window.get("prompts") == "shipped":
        return excluded("measured with the fixed prompts")
    return supported(
        POSSIBLE,
        "the counts come from prompts of unknown kind; random text gives a meaningless length",
        "provcheck serve URL (its fixed code and prose prompts)",
    )


def k_too_large(e: Evidence, s: Signs) -> Opinion:
    block, k = e.drafter.block_size, e.k
    if block and k and e.drafter.dflash and k > block - 1:
        return supported(
            DIRECT if s.cut or not s.poor_acceptance else 0.45,
            f"{k} tokens are drafted, the drafter was trained on blocks of {block}: positions from"
            f" {block - 1} on are wasted",
        )
    if s.cut and e.curve and e.curve.cut_at and not block:
        return supported(
            0.6,
            f"nothing is accepted from position {e.curve.cut_at} on",
            "block_size in the drafter's config",
        )
    if s.cut:
        return excluded(f"{k} drafted tokens fit the block of {block}")
    return SILENT


def k_too_small(e: Evidence, s: Signs) -> Opinion:
    block, k = e.drafter.block_size, e.k
    if not block or not k or not e.drafter.dflash or k >= block - 1:
        return SILENT
    weight = 0.85 if not s.poor_acceptance else POSSIBLE
    return supported(weight, f"{k} of the {block - 1} tokens that one draft pass yields are used")


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
        return supported(
            FITS,
            f"a draft model runs {e.k} passes per step and {1 - (e.acceptance.length - 1) / e.k:.0%} of them"
            " are thrown away; whether that pays was not measured",
            ASK_OFF,
        )
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


def graphs_off(e: Evidence, s: Signs) -> Opinion:
    state = e.settings.get("cuda_graphs")
    if state is False and not on_cpu(e):
        return supported(
            DIRECT if s.slow_step or s.slow or s.net_loss or e.baseline is None else 0.7,
            "the engine runs without CUDA graphs (0.22x to 0.48x in the recorded case)",
        )
    if state is True:
        return excluded("CUDA graphs were captured" if e.log.graphs else "CUDA graphs are configured")
    if s.slow_step or s.slow:
        return unknown("the log of the start was not given", ASK_LOG)
    return SILENT


def on_cpu(e: Evidence) -> bool:
    """An engine built for CPUs has no graphs to lose."""
    return e.log.config.get("device_config") == "cpu" or "cpu" in str(e.settings.version or "")


def starved_cpu(e: Evidence, s: Signs) -> Opinion:
    cpus = e.settings.get("cpus")
    if isinstance(cpus, int) and cpus <= 1:
        return supported(
            0.9 if s.slow_step or s.slow else 0.6,
            f"the engine may use {cpus} CPU (0.26x on one shared core in the recorded case)",
        )
    if _clear(e, s):
        return excluded(_clear(e, s))
    if s.slow_step or (s.slow and e.acceptance is None):
        if e.settings.get("cuda_graphs") is False and not on_cpu(e):
            return supported(POSSIBLE, "steps are slow, and graphs off explain it already")
        weight = SIGNATURE if _single(e) else FITS
        return supported(
            weight,
            f"{_slow_words(e)}; graphs are not the reason",
            "taskset -cp PID, cpu.stat of the service, and the same run idle",
        )
    return SILENT


def transport(e: Evidence, s: Signs) -> Opinion:
    if _single(e):
        return excluded("one GPU: nothing goes between GPUs")
    if _clear(e, s):
        return excluded(_clear(e, s))
    off = e.settings.get("custom_all_reduce") is False
    peer = str(e.settings.get("env.NCCL_P2P_DISABLE") or "0") not in ("0", "")
    if s.slow_step or (s.slow and e.acceptance is None):
        told = [
            text
            for flag, text in ((off, "custom all-reduce is off"), (peer, "NCCL_P2P_DISABLE is set"))
            if flag
        ]
        if told:
            return supported(SIGNATURE, f"{_slow_words(e)}, and {' and '.join(told)}", "provcheck nccl")
        return supported(FITS, f"{_slow_words(e)} on several GPUs", "provcheck nccl")
    return SILENT


def hardware(e: Evidence, s: Signs) -> Opinion:
    if _clear(e, s):
        return excluded(_clear(e, s))
    if s.slow_step or (s.slow and e.acceptance is None):
        return supported(
            0.35,
            f"{_slow_words(e)}: clocks, power cap, PCIe or another process on the GPU",
            "provcheck gpus; provcheck load",
        )
    return SILENT


def drift(e: Evidence, s: Signs) -> Opinion:
    base = e.peer
    if base is None or not (s.slow_step or s.slow or s.shorter):
        return SILENT
    changed = [
        f"{row.meaning}: {base.settings[row.key]} -> {e.settings.get(row.key)}"
        for row in SETTINGS
        if row.effect >= 2
        and row.key in base.settings
        and row.key in e.settings.values
        and base.settings[row.key] != e.settings.get(row.key)
    ]
    if not changed:
        return excluded("no setting of weight differs from the baseline's")
    return supported(0.7, "settings differ from the baseline: " + "; ".join(changed[:5]))


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


def memory(e: Evidence, s: Signs) -> Opinion:
    if any(error.row == "out_of_memory" for error in e.log.errors):
        return supported(DIRECT, "the engine ran out of GPU memory")
    return SILENT


def device_assert(e: Evidence, s: Signs) -> Opinion:
    if not any(error.row == "device_assert" for error in e.log.errors):
        return SILENT
    xid = (
        " The kernel's Xid 43 names the engine: an application error, not a hardware fault."
        if e.log.xids
        else ""
    )
    return supported(
        FITS,
        "a kernel met an index out of bounds; which one is not in the log." + xid,
        "the same start with CUDA_LAUNCH_BLOCKING=1",
    )


def _on(value: bool | None) -> str:
    return "on" if value else "off"


def _single(e: Evidence) -> bool:
    return e.settings.get("tp") == 1 and (e.settings.get("pp") or 1) == 1


def _clear(e: Evidence, s: Signs) -> str:
    """Why the machine is out: its time per step is normal, or acceptance alone explains the loss."""
    if s.slow_step:
        return ""
    if e.step_ratio is not None:
        return (
            f"{e.speed.ms_per_step if e.speed else 0:.1f} ms per step is {e.step_ratio:.2f}x of the"
            " baseline's"
        )
    if s.dead or s.cliff or s.cut:
        return ACCEPTANCE_IS_COUNTED
    return ""


def _slow_words(e: Evidence) -> str:
    if e.step_ratio is not None:
        return (
            f"a step takes {e.step_ratio:.1f}x the baseline's time at an acceptance that did not fall with it"
        )
    if e.break_even is not None and e.acceptance is not None:
        return f"a draft step costs {e.break_even:.1f} plain tokens, more than any acceptance could pay"
    return "tokens come slower than in the baseline"
