"""Rules about the machine and how the engine uses it: graphs, CPUs, the way between GPUs, memory."""

from __future__ import annotations

from checks.serving.evidence import Evidence
from checks.serving.hostcost import host_cost
from checks.serving.opinion import (
    ASK_LOG,
    DIRECT,
    FITS,
    POSSIBLE,
    SIGNATURE,
    SILENT,
    Opinion,
    excluded,
    supported,
    unknown,
)
from checks.serving.signs import Signs, token_over_step
from checks.serving.since import settings_changed

ACCEPTANCE_IS_COUNTED = (
    "acceptance counts tokens, not time: graphs off left 4.11 and a starved CPU 4.04 of 3.99, so it cannot"
    " lower it"
)


STARVED_WAIT, OWN_CORES_WAIT = 0.25, 0.05
"""Waiting for a CPU from which on a thread is starved, and up to which it is not: one core shared with another busy
thread means 0.5, with two 0.67, cores of one's own under 0.01."""


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
    """An engine built for CPUs has no graphs to lose. Its log says so, its version may, and only such an engine is
    given the memory of its KV cache by VLLM_CPU_KVCACHE_SPACE."""
    process = e.seen.config.get("proc")
    environ = process.get("environ") if isinstance(process, dict) else None
    return (
        e.log.config.get("device_config") == "cpu"
        or "cpu" in str(e.settings.version or "")
        or (isinstance(environ, dict) and "VLLM_CPU_KVCACHE_SPACE" in environ)
    )


def starved_cpu(e: Evidence, s: Signs) -> Opinion:
    cpus = e.settings.get("cpus")
    if isinstance(cpus, int) and cpus <= 1:
        return supported(
            0.9 if s.slow_step or s.slow else 0.6,
            f"the engine may use {cpus} CPU (0.26x on one shared core in the recorded case)",
        )
    if _clear(e, s):
        return excluded(_clear(e, s))
    wait = e.window.get("cpu_wait")
    if isinstance(wait, float) and (s.slow_step or s.slow) and not on_cpu(e):
        told = f"the engine's busiest thread was ready and got no CPU for {wait:.0%} of its time"
        if wait >= STARVED_WAIT:
            return supported(0.9, told)
        if wait <= OWN_CORES_WAIT:
            return excluded(told)
    if s.slow_step or (s.slow and e.acceptance is None):
        if known := _explained(e, s):
            return supported(POSSIBLE, f"steps are slow, and {known} already")
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
        if known := _explained(e, s):
            return supported(POSSIBLE, f"steps are slow, and {known} already", "provcheck nccl")
        if e.settings.get("tp") is None:
            because = f"{_slow_words(e)}; on how many GPUs is not recorded"
            return supported(POSSIBLE, because, "provcheck nccl")
        return supported(FITS, f"{_slow_words(e)} on several GPUs", "provcheck nccl")
    return SILENT


def hardware(e: Evidence, s: Signs) -> Opinion:
    if _clear(e, s):
        return excluded(_clear(e, s))
    if s.slow_step or (s.slow and e.acceptance is None):
        if known := _explained(e, s):
            return supported(0.2, f"steps are slow, and {known} already", "provcheck gpus; provcheck load")
        return supported(
            0.35,
            f"{_slow_words(e)}: clocks, power cap, PCIe or another process on the GPU",
            "provcheck gpus; provcheck load",
        )
    return SILENT


def memory(e: Evidence, s: Signs) -> Opinion:
    if any(error.row == "out_of_memory" for error in e.log.errors):
        return supported(DIRECT, "the engine ran out of GPU memory")
    return SILENT


def _explained(e: Evidence, s: Signs) -> str:
    """What is known to slow a step, so that a guess about the machine has nothing left to explain."""
    if e.settings.get("cuda_graphs") is False and not on_cpu(e):
        return "graphs off explain it"
    changed = settings_changed(e, s)
    return f"a changed setting ({changed[0]}) explains it" if changed else ""


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
    over = token_over_step(e)
    if over is not None:
        return (
            f"a plain token takes {over:.2f}x of the baseline's draft step, which holds a pass of the target too:"
            " it is speculation that is missing"
        )
    if s.dead or s.cliff or s.cut:
        return ACCEPTANCE_IS_COUNTED
    return ""


def _slow_words(e: Evidence) -> str:
    if e.step_ratio is not None:
        return (
            f"a step takes {e.step_ratio:.1f}x the baseline's time at an acceptance that did not fall with it"
        )
    over = token_over_step(e)
    if over is not None and over > e.limits.step_warn:
        return f"a plain token takes {over:.1f}x the time of a whole draft step of the baseline"
    if e.step_ratio is None and (cost := host_cost(e)) and cost.starved:
        return cost.words
    if e.break_even is not None and e.acceptance is not None:
        return f"a draft step costs {e.break_even:.1f} plain tokens, more than any acceptance could pay"
    return "tokens come slower than in the baseline"
