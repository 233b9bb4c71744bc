"""Causes of slow or dead speculation. One row each: adding a cause = adding a row, its rule and a recorded case.

``when`` is a typed rule (evidence, symptoms -> opinion) that supports the cause, excludes it with a reason, or asks
for what is missing. ``fires`` and ``silent`` name the cases of ``tests/replay/serving/cases.py`` that show both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from checks.serving import rules_baseline as baseline
from checks.serving import rules_drafter as drafter
from checks.serving import rules_engine as engine
from checks.serving import rules_layers as layers
from checks.serving import rules_machine as machine
from checks.serving import rules_weights as weights
from checks.serving.evidence import Evidence
from checks.serving.opinion import Opinion
from checks.serving.signs import Signs


@dataclass(frozen=True)
class CauseRow:
    """``family``: configuration, weights, pairing, prompts, tuning, engine, infrastructure or measurement."""

    id: str
    family: str
    title: str
    when: Callable[[Evidence, Signs], Opinion]
    fix: str
    source: str
    fires: str
    silent: str


_H200 = "measured, vLLM 0.20.1 on an H200"

CAUSES: tuple[CauseRow, ...] = (
    CauseRow(
        "mask_token",
        "configuration",
        "wrong mask token",
        drafter.mask_token,
        "set dflash_config.mask_token_id to the drafter's own (248070 in the Qwen3.5/3.6 family, 151669 in"
        " Qwen3)",
        _H200 + ": length 1.10-1.11",
        "mask_unused",
        "right",
    ),
    CauseRow(
        "rope",
        "configuration",
        "wrong or missing rope_theta",
        drafter.rope,
        "set rope_theta (or rope_parameters.rope_theta) to the target's; absent it silently becomes 10000",
        _H200 + ": 2.5 at 10x, 1.6 at 100x, 1.13 at 1000x; vllm-project/speculators#613",
        "theta_missing",
        "right",
    ),
    CauseRow(
        "several_at_once",
        "configuration",
        "several config errors at once",
        drafter.several_at_once,
        "mend all doubtful fields together: one at a time shows no movement",
        _H200 + ": length 1.08",
        "guessed",
        "mask_unused",
    ),
    CauseRow(
        "layer_count",
        "configuration",
        "layer ids that cannot work",
        layers.layer_count,
        "give as many distinct ids as fc takes, all below the target's depth",
        _H200 + ": dies at the first request",
        "fail_ids_out_of_range",
        "right",
    ),
    CauseRow(
        "layer_ids",
        "configuration",
        "wrong target layers captured",
        layers.layer_ids,
        "set target_layer_ids to those the drafter was trained on, in this engine's counting",
        _H200 + ": length 1.39-2.5",
        "ids_early2",
        "right",
    ),
    CauseRow(
        "one_early",
        "engine",
        "target layers captured one early",
        layers.one_early,
        "vLLM before 0.22.0: put the ids plus one into the top-level eagle_aux_hidden_state_layer_ids, or"
        " upgrade",
        "vllm#40727",
        "ids_unshifted",
        "right",
    ),
    CauseRow(
        "vocab",
        "configuration",
        "wrong vocabulary",
        drafter.vocab,
        "set vocab_size to the target's",
        _H200,
        "vocab_smaller",
        "right",
    ),
    CauseRow(
        "window",
        "engine",
        "windowed layers run full, or long context",
        drafter.window,
        "vLLM 0.25.0 or later with VLLM_USE_V2_MODEL_RUNNER=1; until then keep prompts within the window",
        "vllm#40898, vllm#47914; AEON-7/Qwen3.6-27B#6; sglang#30763",
        "thread_window",
        "right",
    ),
    CauseRow(
        "tensors",
        "weights",
        "tensors missing or mixed up",
        weights.tensors,
        "fetch the checkpoint again and compare its tensor list with the published one",
        _H200 + ": length 1.04-1.07",
        "missing_fc",
        "right",
    ),
    CauseRow(
        "weights",
        "weights",
        "untrained, foreign or no weights",
        weights.weights,
        "compare the weights' hash with the publisher's and the target with the one they were trained on",
        _H200 + ": length 1.00",
        "random",
        "mask_unused",
    ),
    CauseRow(
        "mtp_weights",
        "weights",
        "MTP head not loaded",
        weights.mtp_weights,
        "use a checkpoint that keeps the mtp.* tensors, in a type the quantisation does not skip",
        "sglang#35797, sglang#23113; vllm#35548",
        "thread_mtp_quantised",
        "healthy_mtp",
    ),
    CauseRow(
        "eagle3_as_eagle",
        "configuration",
        "EAGLE-3 drafter under EAGLE",
        weights.eagle3_as_eagle,
        "--speculative-algorithm EAGLE3",
        "sglang#21272",
        "thread_eagle3_as_eagle",
        "healthy_mtp",
    ),
    CauseRow(
        "wrong_target",
        "pairing",
        "drafter of another target or revision",
        weights.wrong_target,
        "pin revision and hash of both; retrain or fetch the drafter of this target",
        _H200 + ": length 1.00",
        "wrong_pair",
        "right",
    ),
    CauseRow(
        "thinking",
        "prompts",
        "thinking mode or chat template differs",
        engine.thinking,
        "measure and serve with the mode the drafter was trained for",
        "z-lab/dflash#133",
        "thread_thinking",
        "right",
    ),
    CauseRow(
        "prompts",
        "prompts",
        "prompts of unknown kind",
        engine.prompts,
        "measure with fixed code and prose prompts",
        "vllm#42505; z-lab/dflash#118",
        "thread_random_prompts",
        "right",
    ),
    CauseRow(
        "k_too_large",
        "tuning",
        "more drafted than the block was trained for",
        engine.k_too_large,
        "num_speculative_tokens = block_size - 1 (SGLang: num_draft_tokens = block_size)",
        _H200 + ": 9 %",
        "k15",
        "right",
    ),
    CauseRow(
        "k_too_small",
        "tuning",
        "fewer drafted than the block gives",
        engine.k_too_small,
        "num_speculative_tokens = block_size - 1 (SGLang: num_draft_tokens = block_size)",
        _H200 + ": 0.63x to 0.96x of off",
        "k1",
        "right",
    ),
    CauseRow(
        "draft_cost",
        "tuning",
        "drafting costs more than it brings",
        engine.draft_cost,
        "fewer drafted tokens, a smaller drafter, or none",
        _H200 + ": 0.35x of off",
        "draft_model",
        "healthy_mtp",
    ),
    CauseRow(
        "break_even",
        "tuning",
        "below break-even",
        engine.break_even,
        "turn speculation off for this load, or raise the acceptance length above break-even",
        "sglang#29244",
        "thread_net_loss",
        "right",
    ),
    CauseRow(
        "compile_cache",
        "engine",
        "compiled graph of an older config",
        engine.compile_cache,
        "clear ~/.cache/vllm/torch_compile_cache (or give the ids at top level), restart, measure again",
        _H200,
        "stale_compile_cache",
        "right",
    ),
    CauseRow(
        "runner_v2",
        "engine",
        "V2 runner and this drafter",
        engine.runner_v2,
        "VLLM_USE_V2_MODEL_RUNNER=0",
        "vllm#49559",
        "thread_runner_v2",
        "right",
    ),
    CauseRow(
        "upgrade",
        "engine",
        "engine upgrade",
        engine.upgrade,
        "go back to the version of the baseline, and report it",
        "SpecForge#310; vllm#26191",
        "thread_upgrade",
        "right",
    ),
    CauseRow(
        "not_speculating",
        "configuration",
        "speculation is not on",
        engine.not_speculating,
        "check the drafter's path and the option's spelling (`provcheck flags`)",
        "noonghunna/club-3090#18",
        "thread_no_drafter",
        "off",
    ),
    CauseRow(
        "speculation_off",
        "tuning",
        "no speculation, and the baseline speculates",
        baseline.speculation_off,
        "start it with the baseline's speculation, or measure against a baseline without",
        _H200 + ": 1.30x and 1.45x with it",
        "off+right",
        "off",
    ),
    CauseRow(
        "graphs_off",
        "infrastructure",
        "CUDA graphs off",
        machine.graphs_off,
        "drop --enforce-eager / --disable-cuda-graph",
        _H200 + ": 0.22x",
        "off_eager",
        "off",
    ),
    CauseRow(
        "starved_cpu",
        "infrastructure",
        "starved CPU",
        machine.starved_cpu,
        "give the engine whole cores of its own",
        _H200 + ": 0.26x",
        "right_cpu_starved+right",
        "right",
    ),
    CauseRow(
        "transport",
        "infrastructure",
        "slow path between GPUs",
        machine.transport,
        "`provcheck nccl`; NVLink bridge, peer access, ACS; then custom all-reduce on",
        "noonghunna/club-3090",
        "slow_tp2",
        "incident",
    ),
    CauseRow(
        "hardware",
        "infrastructure",
        "slow GPU",
        machine.hardware,
        "`provcheck gpus` and `provcheck load` name it",
        "general",
        "right_cpu_starved+right",
        "right",
    ),
    CauseRow(
        "drift",
        "engine",
        "settings changed since the baseline",
        baseline.drift,
        "put the changed settings back one by one",
        "general",
        "slow_tp2",
        "right",
    ),
    CauseRow(
        "other_drafter",
        "weights",
        "another drafter than the baseline's, accepted less",
        baseline.other_drafter,
        "compare both drafters' configs, then the hash of their weights; serve the baseline's until they agree",
        _H200,
        "other_weights+right",
        "right",
    ),
    CauseRow(
        "memory",
        "infrastructure",
        "out of GPU memory",
        machine.memory,
        "`provcheck fit` says what to lower",
        "engine logs",
        "out_of_memory",
        "right",
    ),
    CauseRow(
        "device_assert",
        "engine",
        "index out of bounds in a kernel",
        engine.device_assert,
        "lint the drafter's mask token and vocabulary; then report it to the engine with a blocking launch",
        "vllm#50707",
        "thread_device_assert",
        "right",
    ),
    CauseRow(
        "foreign_baseline",
        "measurement",
        "baseline of another engine",
        engine.foreign_baseline,
        "save a baseline on this engine",
        "definitions differ: SGLang 0.5.10 counts the bonus in its rate",
        "incident",
        "right",
    ),
)
