"""Recorded and composed runs, in small: what an engine would show, and what a checker must conclude.

Numbers of single faults are the measured ones (vLLM 0.20.1 on an H200, tiny DFlash pair); those named ``thread_*``
are composed from the numbers of a public thread; ``healthy_*`` from published reference lengths.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any

from checks.serving.baseline import Baseline
from checks.serving.drafterdiff import fields_of
from checks.serving.observation import Observation

CONFIG: dict[str, Any] = {
    "architectures": ["DFlashDraftModel"],
    "vocab_size": 4096,
    "hidden_size": 256,
    "num_hidden_layers": 3,
    "eos_token_id": 0,
    "rope_theta": 1000000,
    "block_size": 8,
    "num_target_layers": 12,
    "dflash_config": {"mask_token_id": 4090, "target_layer_ids": [1, 5, 9]},
    "eagle_aux_hidden_state_layer_ids": [2, 6, 10],
}
QWEN27: dict[str, Any] = {
    "architectures": ["DFlashDraftModel"],
    "vocab_size": 248320,
    "hidden_size": 5120,
    "num_hidden_layers": 5,
    "eos_token_id": 248044,
    "rope_theta": 10000000,
    "block_size": 16,
    "num_target_layers": 64,
    "layer_types": ["full_attention"] * 5,
    "dflash_config": {"mask_token_id": 248070, "target_layer_ids": [1, 16, 31, 46, 61]},
    "eagle_aux_hidden_state_layer_ids": [2, 17, 32, 47, 62],
}
GUESS: dict[str, Any] = {
    "architectures": ["DFlashDraftModel"],
    "vocab_size": 248320,
    "hidden_size": 5120,
    "num_hidden_layers": 5,
    "eos_token_id": 248044,
    "block_size": 16,
    "num_target_layers": 64,
    "dflash_config": {"mask_token_id": 248077, "target_layer_ids": [1, 17, 33, 49, 63]},
}


def page(
    positions: tuple[float, ...] = (),
    *,
    drafts: int = 2000,
    tok_s: float | None = 800.0,
    prompt: int = 360,
    requests: int = 40,
    covered: float = 1.0,
    spec: bool = True,
) -> str:
    """A vLLM metrics page since start. ``positions`` are shares of drafts; ``tok_s`` the decode speed."""
    counts = [round(share * drafts) for share in positions]
    accepted = sum(counts)
    tokens = round((drafts + accepted) / covered) + requests if spec and drafts else 5000
    lines = ["# TYPE vllm:generation_tokens_total counter"]

    def add(name: str, value: float, extra: str = "") -> None:
        lines.append(f'vllm:{name}{{engine="0",model_name="m"{extra}}} {float(value)}')

    if spec:
        add("spec_decode_num_drafts_total", drafts)
        add("spec_decode_num_draft_tokens_total", drafts * len(positions))
        add("spec_decode_num_accepted_tokens_total", accepted)
        for at, count in enumerate(counts):
            add("spec_decode_num_accepted_tokens_per_pos_total", count, f',position="{at}"')
    add("generation_tokens_total", tokens)
    add("prompt_tokens_total", prompt * requests)
    add("time_to_first_token_seconds_count", requests)
    add("time_to_first_token_seconds_sum", requests * 0.02)
    if tok_s:
        add("request_decode_time_seconds_count", requests)
        add("request_decode_time_seconds_sum", (tokens - requests) / tok_s)
    return "\n".join(lines) + "\n"


def vllm_log(
    *,
    version: str = "0.20.1",
    model: str = "/models/tiny-target",
    method: str | None = "dflash",
    k: int = 7,
    tp: int = 1,
    layers: tuple[int, ...] | None = (2, 6, 10),
    runner: str = "v1",
    eager: bool = False,
    reduce_off: bool = False,
    quantization: str = "None",
    warm: bool = True,
    cache: str = "20af5665b3",
    lines: tuple[str, ...] = (),
) -> str:
    """The lines of a vLLM start that matter."""
    spec = (
        f"SpeculativeConfig(method='{method}', model='/models/drafter', num_spec_tokens={k})"
        if method
        else "None"
    )
    args: dict[str, Any] = {"model": model, "tensor_parallel_size": tp}
    if method:
        args["speculative_config"] = {
            "method": method,
            "model": "/models/drafter",
            "num_speculative_tokens": k,
        }
    found = [
        f"INFO [utils.py:233] non-default args: {args}",
        (
            f"INFO [core.py:109] Initializing a V1 LLM engine (v{version}) with config: model='{model}', "
            f"speculative_config={spec}, dtype=torch.bfloat16, max_seq_len=2048, tensor_parallel_size={tp}, "
            f"pipeline_parallel_size=1, disable_custom_all_reduce={reduce_off}, quantization={quantization}, "
            f"enforce_eager={eager}, kv_cache_dtype=auto, device_config=cuda, enable_prefix_caching=False"
        ),
    ]
    if layers is not None and method in ("dflash", "eagle3"):
        told = (
            "Using auxiliary layers from speculative config"
            if runner == "v1"
            else "Using Eagle3 auxiliary layers from config"
        )
        found.append(f"INFO [gpu_model_runner.py:4839] {told}: {tuple(layers)}")
    if not eager:
        found.append(
            f"INFO Using cache directory: /root/.cache/vllm/torch_compile_cache/{cache}/rank_0_0/backbone"
        )
        found.append(
            "INFO Directly load AOT compilation from path /x"
            if warm
            else "INFO Compiling a graph for compile range takes 8 s"
        )
        found.append("INFO [gpu_model_runner.py:6133] Graph capturing finished in 1 secs, took 0.05 GiB")
    else:
        found.append("INFO [vllm.py:1089] Cudagraph is disabled under eager mode")
    return "\n".join([*found, 'INFO: 127.0.0.1:1 - "GET /health HTTP/1.1" 200 OK', *lines]) + "\n"


def sglang_log(
    length: float,
    rate: float,
    *,
    algorithm: str = "EAGLE",
    drafter: str = "None",
    slots: int = 4,
    model: str = "Qwen/Qwen3.6-27B",
    tp: int = 1,
    quantization: str = "None",
    graphs: bool = True,
    tok_s: float = 70.0,
    lines: int = 20,
) -> str:
    """The lines of an SGLang start and of its decode statistics."""
    start = (
        f"[2026-11-01 10:00:00] server_args=ServerArgs(model_path='{model}', tp_size={tp}, pp_size=1,"
        f" quantization={quantization}, kv_cache_dtype='auto', attention_backend='fa3',"
        f" disable_cuda_graph={not graphs}, disable_custom_all_reduce=False, disable_overlap_schedule=False,"
        f" speculative_algorithm='{algorithm}', speculative_draft_model_path={drafter},"
        f" speculative_num_steps={slots - 1}, speculative_eagle_topk=1, speculative_num_draft_tokens={slots})"
    )
    decode = (
        "[2026-11-01 10:01:00] Decode batch, #running-req: 1, #token: 900, token usage: 0.01, accept len:"
        f" {length:.2f}, accept rate: {rate:.2f}, cuda graph: {graphs}, gen throughput (token/s):"
        f" {tok_s:.2f}, #queue-req: 0"
    )
    return "\n".join([start, *[decode] * lines]) + "\n"


@dataclass(frozen=True)
class Case:
    """``verdict`` of the whole report; ``first``: ids that must share rank 1; ``also``: ids that must be ranked;
    ``out``: ids that must be excluded with a reason; ``never``: ids that must not be ranked; ``says``: texts that
    must stand in the findings; ``statuses``: findings that must have that status."""

    name: str
    seen: Observation
    verdict: str
    first: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    out: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    says: tuple[str, ...] = ()
    statuses: dict[str, str] = field(default_factory=dict)
    baselines: tuple[Baseline, ...] = ()
    determined: bool | None = None


def tiny(
    positions: tuple[float, ...],
    tok_s: float,
    config: dict[str, Any] | None = CONFIG,
    *,
    drafts: int = 2000,
    **log: Any,
) -> Observation:
    """A run of the tiny DFlash pair."""
    log.setdefault("k", len(positions))
    return Observation(
        after=page(positions, drafts=drafts, tok_s=tok_s), log=vllm_log(**log), drafter_config=config
    )


def edited(base: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A config with fields changed; None removes one; ``mask`` and ``ids`` reach into dflash_config."""
    config = json.loads(json.dumps(base))
    for name, value in changes.items():
        place = config["dflash_config"] if name in ("mask", "ids") else config
        key = {"mask": "mask_token_id", "ids": "target_layer_ids"}.get(name, name)
        if value is None:
            place.pop(key, None)
        else:
            place[key] = value
    return config


OFF = Baseline("off", engine="vllm", version="0.20.1", tok_s=673.0, ms_per_step=1.486)
RIGHT = Baseline(
    "right",
    engine="vllm",
    version="0.20.1",
    method="dflash",
    k=7,
    length=3.96,
    drafts=1322.0,
    positions=(0.759, 0.601, 0.48, 0.408, 0.312, 0.234, 0.164),
    tok_s=866.0,
    ms_per_step=4.57,
    layers=(2, 6, 10),
    settings={"tp": 1, "cuda_graphs": True},
    prompt_tokens=361.0,
)
RIGHT_FILE = replace(
    RIGHT,
    drafter=fields_of(CONFIG),
    settings={**RIGHT.settings, "drafter": "/models/published"},
)
"""The same with the config of its drafter, which lies elsewhere than that of a run beside it."""
UNSHIFTED = Baseline(
    "unshifted",
    engine="vllm",
    version="0.20.1",
    method="dflash",
    k=7,
    length=3.606,
    drafts=2000.0,
    positions=(0.76, 0.585, 0.44, 0.348, 0.24, 0.15, 0.083),
    tok_s=758.0,
    ms_per_step=4.7,
    layers=(1, 5, 9),
    cache_dirs=("/root/.cache/vllm/torch_compile_cache/95c1a0306c/rank_0_0/backbone",),
)
TUNED = Baseline(
    "tuned", engine="sglang", version="0.5.11", method="mtp", k=3, tok_s=73.5, model="Qwen/Qwen3.6-27B"
)

HEALTHY = (0.76, 0.60, 0.48, 0.41, 0.31, 0.23, 0.16)
ZEROS = (0.0,) * 13
UNSHIFTED_FILE = edited(CONFIG, eagle_aux_hidden_state_layer_ids=None)
DEAD_ENGINE = (
    "ERROR [async_llm.py:704] vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.",
    'INFO: 127.0.0.1:2 - "POST /v1/completions HTTP/1.1" 500 Internal Server Error',
)


def _dead(error: str, config: dict[str, Any], *extra: str) -> Observation:
    return Observation(
        log=vllm_log(lines=(f"ERROR [core.py:1138] {error}", *DEAD_ENGINE, *extra)), drafter_config=config
    )


MEASURED: tuple[Case, ...] = (
    Case(
        "off",
        Observation(after=page(spec=False, tok_s=672), log=vllm_log(method=None)),
        "pass",
        says=("speculation off",),
        never=("weights", "mask_token", "not_speculating"),
    ),
    Case(
        "off_eager",
        Observation(after=page(spec=False, tok_s=147), log=vllm_log(method=None, eager=True)),
        "warn",
        first=("graphs_off",),
        statuses={"serve.graphs": "warn"},
        never=("mask_token", "weights"),
    ),
    Case(
        "off_eager+off",
        Observation(after=page(spec=False, tok_s=147), log=vllm_log(method=None, eager=True)),
        "fail",
        first=("graphs_off",),
        statuses={"serve.speed": "fail"},
        baselines=(OFF,),
    ),
    Case(
        "off_cpu_starved+off",
        Observation(after=page(spec=False, tok_s=177), log=vllm_log(method=None)),
        "fail",
        first=("starved_cpu",),
        out=("graphs_off", "transport"),
        baselines=(OFF,),
    ),
    Case("right", tiny(HEALTHY, 866), "pass", never=("rope", "mask_token", "layer_ids", "starved_cpu")),
    Case(
        "right+off",
        tiny(HEALTHY, 866),
        "pass",
        baselines=(OFF,),
        out=("break_even",),
        statuses={"serve.break_even": "pass"},
    ),
    Case(
        "right_eager+right",
        tiny((0.77, 0.62, 0.51, 0.43, 0.33, 0.24, 0.17), 325, eager=True),
        "fail",
        first=("graphs_off",),
        baselines=(RIGHT,),
        statuses={"serve.acceptance": "pass", "serve.step": "fail"},
    ),
    Case(
        "right_cpu_starved+right",
        tiny((0.76, 0.61, 0.49, 0.41, 0.32, 0.22, 0.15), 222, drafts=661),
        "fail",
        first=("starved_cpu",),
        also=("hardware",),
        out=("graphs_off", "transport"),
        never=("mask_token", "rope", "weights"),
        baselines=(RIGHT,),
        statuses={"serve.acceptance": "pass", "serve.acceptance_baseline": "pass", "serve.step": "fail"},
    ),
    Case(
        "right_cpu_starved+off",
        tiny((0.76, 0.61, 0.49, 0.41, 0.32, 0.22, 0.15), 222, drafts=661),
        "fail",
        first=("starved_cpu",),
        baselines=(OFF,),
        statuses={"serve.acceptance": "pass", "serve.step": "fail"},
    ),
    Case(
        "ids_unshifted",
        tiny((0.76, 0.59, 0.44, 0.35, 0.24, 0.15, 0.08), 758, UNSHIFTED_FILE, layers=(1, 5, 9)),
        "warn",
        first=("one_early",),
        statuses={"serve.layers": "warn", "serve.acceptance": "pass"},
    ),
    Case(
        "ids_early2",
        tiny(
            (0.64, 0.38, 0.24, 0.14, 0.06, 0.03, 0.01),
            594,
            edited(CONFIG, eagle_aux_hidden_state_layer_ids=[0, 4, 8]),
            layers=(0, 4, 8),
        ),
        "fail",
        first=("layer_ids",),
        statuses={"serve.layers": "fail"},
        never=("mask_token",),
    ),
    Case(
        "ids_late2",
        tiny(
            (0.61, 0.37, 0.20, 0.11, 0.05, 0.02, 0.01),
            553,
            edited(CONFIG, eagle_aux_hidden_state_layer_ids=[4, 8, 12]),
            layers=(4, 8, 12),
        ),
        "fail",
        first=("layer_ids",),
    ),
    Case(
        "ids_ends",
        tiny(
            (0.55, 0.28, 0.16, 0.08, 0.04, 0.01, 0.01),
            405,
            edited(CONFIG, eagle_aux_hidden_state_layer_ids=[0, 6, 12]),
            layers=(0, 6, 12),
        ),
        "fail",
        first=("layer_ids",),
        out=("rope",),
    ),
    Case(
        "ids_last3",
        tiny(
            (0.28, 0.08, 0.02, 0.01, 0, 0, 0),
            252,
            edited(CONFIG, eagle_aux_hidden_state_layer_ids=[10, 11, 12]),
            layers=(10, 11, 12),
        ),
        "fail",
        first=("layer_ids",),
        out=("rope", "mask_token"),
    ),
    Case(
        "ids_reversed",
        tiny(HEALTHY, 937, edited(CONFIG, eagle_aux_hidden_state_layer_ids=[10, 6, 2]), layers=(10, 6, 2)),
        "pass",
        says=("another order",),
        never=("layer_ids",),
    ),
    Case(
        "stale_compile_cache",
        tiny(
            (0.76, 0.585, 0.44, 0.348, 0.24, 0.15, 0.083),
            800,
            edited(UNSHIFTED_FILE, ids=[1, 6, 11]),
            layers=(1, 6, 11),
            cache="95c1a0306c",
        ),
        "warn",
        also=("compile_cache",),
        statuses={"serve.compile_cache": "warn"},
    ),
    Case(
        "stale_compile_cache+unshifted",
        tiny(
            (0.76, 0.585, 0.44, 0.348, 0.24, 0.15, 0.083),
            800,
            edited(UNSHIFTED_FILE, ids=[1, 6, 11]),
            layers=(1, 6, 11),
            cache="95c1a0306c",
        ),
        "warn",
        first=("compile_cache",),
        baselines=(UNSHIFTED,),
    ),
    Case(
        "theta_missing",
        tiny((0.45, 0.14, 0.02, 0, 0, 0, 0), 355, edited(CONFIG, rope_theta=None)),
        "fail",
        first=("rope",),
        statuses={"serve.drafter_config": "fail"},
        out=("mask_token", "graphs_off"),
    ),
    Case(
        "theta_1e5",
        tiny((0.76, 0.46, 0.20, 0.04, 0.02, 0.01, 0), 598, edited(CONFIG, rope_theta=1e5)),
        "fail",
        first=("rope",),
        out=("mask_token",),
    ),
    Case(
        "theta_1e7",
        tiny((0.80, 0.47, 0.11, 0.02, 0, 0, 0), 606, edited(CONFIG, rope_theta=1e7)),
        "fail",
        first=("rope",),
    ),
    Case(
        "theta_1e8",
        tiny((0.67, 0.15, 0.01, 0, 0, 0, 0), 459, edited(CONFIG, rope_theta=1e8)),
        "fail",
        first=("rope",),
    ),
    Case(
        "theta_1000x",
        tiny((0.12, 0.008, 0, 0, 0, 0, 0), 250, edited(CONFIG, rope_theta=1e3)),
        "fail",
        first=("mask_token", "rope"),
    ),
    Case(
        "mask_unused",
        tiny((0.089, 0.008, 0.004, 0.002, 0, 0, 0), 254, edited(CONFIG, mask=4091)),
        "fail",
        first=("mask_token", "rope"),
        also=("tensors",),
        out=("weights", "graphs_off"),
        says=("garbage drafter",),
    ),
    Case(
        "mask_common",
        tiny((0.108, 0.004, 0.001, 0, 0, 0, 0), 261, edited(CONFIG, mask=312)),
        "fail",
        first=("mask_token", "rope"),
    ),
    Case(
        "mask_eot",
        tiny((0.090, 0.005, 0.001, 0, 0, 0, 0), 244, edited(CONFIG, mask=0)),
        "fail",
        first=("mask_token",),
        statuses={"serve.drafter_config": "fail"},
    ),
    Case(
        "random",
        tiny((0.004, 0, 0, 0, 0, 0, 0), 226, drafts=5091),
        "fail",
        first=("weights",),
        also=("wrong_target",),
        out=("mask_token", "rope"),
        says=("dead drafter",),
    ),
    Case(
        "wrong_pair",
        tiny((0.004, 0, 0, 0, 0, 0, 0), 230, drafts=5000),
        "fail",
        first=("weights",),
        also=("wrong_target",),
    ),
    Case("earlier_target", tiny((0.79, 0.67, 0.57, 0.47, 0.36, 0.26, 0.19), 975), "pass"),
    Case(
        "missing_fc",
        tiny((0.037, 0.001, 0, 0, 0, 0, 0), 258, drafts=4927),
        "fail",
        first=("tensors",),
        also=("mask_token", "rope"),
        out=("weights",),
        says=("dead drafter",),
    ),
    Case(
        "missing_attention", tiny((0.037, 0.001, 0, 0, 0, 0, 0), 230, drafts=4900), "fail", first=("tensors",)
    ),
    Case("layers_swapped", tiny((0.064, 0.001, 0, 0, 0, 0, 0), 245, drafts=4700), "fail", first=("tensors",)),
    Case(
        "missing_mlp",
        tiny((0.70, 0.51, 0.39, 0.28, 0.17, 0.10, 0.06), 720),
        "pass",
        says=("not knowable from this record",),
    ),
    Case(
        "missing_mlp+right",
        tiny((0.70, 0.51, 0.39, 0.28, 0.17, 0.10, 0.06), 720),
        "warn",
        baselines=(RIGHT,),
        statuses={"serve.acceptance_baseline": "warn"},
    ),
    Case(
        "missing_hidden_norm",
        tiny((0.77, 0.60, 0.48, 0.41, 0.30, 0.22, 0.15), 870),
        "pass",
        says=("not knowable from this record",),
    ),
    Case(
        "k1",
        tiny((0.84,), 427),
        "warn",
        first=("k_too_small",),
        says=("the drafter is healthy",),
        statuses={"serve.acceptance": "pass"},
    ),
    Case("k3", tiny((0.80, 0.67, 0.56), 643), "warn", first=("k_too_small",)),
    Case(
        "k3+off", tiny((0.80, 0.67, 0.56), 643), "warn", also=("k_too_small", "break_even"), baselines=(OFF,)
    ),
    Case(
        "k15",
        tiny((0.77, 0.52, 0.39, 0.33, 0.25, 0.18, 0.12, 0.045, 0.003, 0, 0, 0, 0, 0, 0), 787),
        "warn",
        first=("k_too_large",),
        statuses={"serve.acceptance": "pass"},
    ),
    Case(
        "vocab_smaller",
        tiny((0.75, 0.60, 0.47, 0.39, 0.29, 0.21, 0.15), 828, edited(CONFIG, vocab_size=3000)),
        "fail",
        first=("vocab",),
        statuses={"serve.acceptance": "pass", "serve.drafter_config": "fail"},
    ),
    Case(
        "guessed",
        tiny(
            (0.077, 0.001, 0, 0, 0, 0, 0),
            241,
            edited(UNSHIFTED_FILE, ids=[2, 7, 11], mask=0, rope_theta=None),
            layers=(2, 7, 11),
        ),
        "fail",
        first=("mask_token",),
        also=("rope", "several_at_once", "layer_ids"),
        out=("weights",),
    ),
    Case(
        "ngram",
        Observation(
            after=page((0.66, 0.52, 0.45, 0.40, 0.37), drafts=1077, tok_s=685, covered=0.72),
            log=vllm_log(method="ngram", k=5),
        ),
        "pass",
        never=("weights", "mask_token", "rope"),
        says=("not comparable",),
    ),
    Case(
        "draft_model",
        Observation(
            after=page((0.57, 0.36, 0.23, 0.16, 0.12), tok_s=237), log=vllm_log(method="draft_model", k=5)
        ),
        "warn",
        first=("draft_cost",),
        never=("mask_token", "layer_ids"),
        statuses={"serve.acceptance": "pass", "serve.break_even": "warn"},
    ),
    Case(
        "draft_model+off",
        Observation(
            after=page((0.57, 0.36, 0.23, 0.16, 0.12), tok_s=237), log=vllm_log(method="draft_model", k=5)
        ),
        "warn",
        first=("draft_cost",),
        baselines=(OFF,),
    ),
    Case(
        "draft_model_rope",
        Observation(
            after=page((0.37, 0.14, 0.07, 0.04, 0.03), tok_s=155),
            log=vllm_log(method="draft_model", k=5),
            drafter_config={"architectures": ["Qwen3ForCausalLM"], "vocab_size": 4096, "hidden_size": 128},
        ),
        "fail",
        first=("rope",),
        never=("mask_token", "layer_ids"),
    ),
    Case(
        "draft_model_untrained",
        Observation(
            after=page((0.002, 0, 0, 0, 0), tok_s=103, drafts=5000), log=vllm_log(method="draft_model", k=5)
        ),
        "fail",
        first=("weights",),
        never=("mask_token",),
    ),
    Case(
        "fail_mask_missing",
        Observation(
            log=vllm_log(
                lines=(
                    (
                        "ERROR [core.py:1136] ValueError: For parallel drafting, the draft model config must"
                        " have `pard_token`, `ptd_token_id`, or `dflash_config.mask_token_id` specified in"
                        " its config.json."
                    ),
                    "RuntimeError: Engine core initialization failed. See root cause above.",
                )
            ).replace('"GET /health', '"GET /nothing'),
            drafter_config=edited(CONFIG, mask=None),
        ),
        "fail",
        first=("mask_token",),
        says=("refused to start", "For parallel drafting"),
    ),
    Case(
        "fail_ids_out_of_range",
        _dead(
            "RuntimeError: mat1 and mat2 shapes cannot be multiplied (32x512 and 768x256)",
            edited(CONFIG, eagle_aux_hidden_state_layer_ids=[2, 6, 15]),
        ),
        "fail",
        first=("layer_count",),
        says=("/health answered 200", "mat1 and mat2"),
    ),
    Case(
        "fail_ids_duplicate",
        _dead(
            "RuntimeError: mat1 and mat2 shapes cannot be multiplied (32x512 and 768x256)",
            edited(CONFIG, eagle_aux_hidden_state_layer_ids=[2, 6, 6]),
        ),
        "fail",
        first=("layer_count",),
    ),
    Case(
        "fail_ids_missing",
        _dead(
            "RuntimeError: mat1 and mat2 shapes cannot be multiplied (32x512 and 768x256)",
            edited(CONFIG, eagle_aux_hidden_state_layer_ids=None, ids=None),
        ),
        "fail",
        first=("layer_count",),
    ),
    Case(
        "fail_vocab_missing",
        _dead(
            "RuntimeError: shape mismatch: value tensor of shape [7, 4096] cannot be broadcast to indexing"
            " result of shape [7, 151936]",
            edited(CONFIG, vocab_size=None),
        ),
        "fail",
        first=("vocab",),
        says=("shape mismatch",),
    ),
    Case(
        "fail_mask_out_of_vocab",
        _dead(
            "AcceleratorError: CUDA error: device-side assert triggered",
            edited(CONFIG, mask=4100),
            "[ 286.9] NVRM: Xid (PCI:0000:00:06): 43, pid=1568, name=VLLM::EngineCor, channel 0x00000096",
        ),
        "fail",
        first=("mask_token",),
        says=("not hardware",),
        never=("hardware",),
        statuses={"node.xid": "pass"},
    ),
)

_SWA = edited(
    QWEN27,
    layer_types=["sliding_attention"] * 4 + ["full_attention"],
    sliding_window=2048,
    use_sliding_window=True,
)
_27B = {"model": "Qwen/Qwen3.6-27B", "k": 15, "tp": 2}

INCIDENT = Case(
    "incident",
    Observation(
        after=page((0.079, 0.039, *ZEROS), drafts=3000, tok_s=18.0),
        log=vllm_log(layers=(1, 17, 33, 49, 63), **_27B),
        drafter_config=GUESS,
    ),
    "fail",
    first=("mask_token", "rope"),
    also=("several_at_once", "layer_ids", "one_early"),
    out=("graphs_off", "transport", "starved_cpu", "hardware", "weights"),
    says=("drafter configuration", "infrastructure excluded because", "garbage drafter"),
    baselines=(TUNED,),
    determined=True,
)

THREADS: tuple[Case, ...] = (
    INCIDENT,
    Case(
        "long_context",
        Observation(
            after=page((0.5, 0.2, 0.09, 0.04, 0.02, 0.01, 0), tok_s=40),
            log=vllm_log(version="0.33.0", layers=None, k=7),
            window={"prompts": "shipped", "prompts_version": 1, "context": 8192, "requests": 8},
        ),
        "fail",
        also=("window",),
        baselines=(
            Baseline(
                "short",
                engine="vllm",
                version="0.33.0",
                method="dflash",
                k=7,
                length=4.0,
                tok_s=80.0,
                ms_per_step=50.0,
                prompts="shipped/1",
            ),
        ),
    ),
    Case(
        "sglang_mask_of_its_own",
        Observation(
            log=sglang_log(1.10, 0.01, algorithm="DFLASH", drafter="'/d'", slots=8)
            + "DFLASH draft runner ready. mask_token=<|MASK|>, mask_token_id=4097\n",
            drafter_config=CONFIG,
        ),
        "fail",
        first=("mask_token",),
        says=("the engine drafts with mask token 4097",),
    ),
    Case(
        "thread_rope_training",
        Observation(
            after=page((0.055, 0, *ZEROS), drafts=4000, tok_s=40),
            log=vllm_log(version="0.33.0", layers=(2, 9, 16, 23, 30), model="Qwen/Qwen3.5-4B", k=15),
            drafter_config=edited(
                QWEN27,
                num_target_layers=32,
                ids=[1, 8, 15, 22, 29],
                eagle_aux_hidden_state_layer_ids=[2, 9, 16, 23, 30],
            ),
        ),
        "fail",
        also=("rope", "tensors", "mask_token"),
        says=("dead drafter",),
    ),
    Case(
        "thread_window",
        Observation(
            after=page((0.600, 0.385, 0.215, 0.108, 0.062, *(0.0,) * 10), tok_s=30),
            log=vllm_log(version="0.21.0", layers=(2, 17, 32, 47, 62), **_27B),
            drafter_config=_SWA,
        ),
        "fail",
        first=("window",),
        out=("mask_token", "k_too_large"),
    ),
    Case(
        "thread_window_worse",
        Observation(
            after=page((0.242, 0.030, *ZEROS), tok_s=25),
            log=vllm_log(version="0.21.0", layers=(2, 17, 32, 47, 62), **_27B),
            drafter_config=_SWA,
        ),
        "fail",
        first=("window",),
        out=("mask_token",),
    ),
    Case(
        "thread_runner_v2",
        Observation(
            after=page((0.001, 0, 0, 0, 0, 0, 0), drafts=4000, tok_s=40),
            log=vllm_log(version="0.25.1", runner="v2"),
        ),
        "fail",
        also=("runner_v2", "weights"),
        determined=False,
    ),
    Case(
        "thread_mtp_quantised",
        Observation(
            log=sglang_log(
                1.00, 0.0, quantization="'compressed-tensors'", tok_s=30.7, model="Qwen/Qwen3.5-35B"
            )
        ),
        "fail",
        first=("mtp_weights",),
        never=("mask_token", "layer_ids"),
    ),
    Case(
        "thread_mtp_missing",
        Observation(
            after=page((0.0, 0.0, 0.0), drafts=3000, tok_s=30),
            log=vllm_log(method="mtp", k=3),
            drafter_tensors={"model.layers.0.mlp.up_proj.weight": {}},
        ),
        "fail",
        first=("mtp_weights",),
    ),
    Case(
        "thread_eagle3_as_eagle",
        Observation(
            log=sglang_log(1.00, 0.0, drafter="'lightseekorg/kimi-k2.5-eagle3'", model="moonshotai/Kimi-K2.5")
        ),
        "fail",
        first=("eagle3_as_eagle",),
    ),
    Case(
        "thread_mtp_crash",
        Observation(
            log=vllm_log(
                method="mtp",
                k=3,
                lines=(
                    (
                        "ERROR [core.py:1136] ValueError: There is no module or parameter named 'fc.weight'"
                        " in Qwen3_5MTP"
                    ),
                    "RuntimeError: Engine core initialization failed.",
                ),
            ).replace("GET /health", "GET /x")
        ),
        "fail",
        first=("tensors",),
    ),
    Case(
        "thread_random_prompts",
        Observation(
            after=page((0.55, 0.33, 0.2, 0.12, 0.07, 0.04, 0.03, *(0.01,) * 3, *(0.0,) * 5), tok_s=60),
            log=vllm_log(version="0.21.0", model="Qwen/Qwen3.5-35B-A3B", layers=(2, 11, 20, 29, 38), k=15),
        ),
        "warn",
        also=("prompts",),
        determined=None,
    ),
    Case(
        "thread_thinking",
        Observation(
            after=page(tuple(0.68**at for at in range(1, 16)), tok_s=60),
            log=vllm_log(version="0.33.0", model="Qwen/Qwen3-8B", layers=(2, 10, 18, 26, 34), k=15),
            window={"thinking": True, "prompts": "shipped", "prompts_version": 1},
        ),
        "warn",
        also=("thinking",),
        out=("prompts",),
    ),
    Case(
        "thread_long_context",
        Observation(log=sglang_log(1.57, 0.19, tok_s=40)),
        "warn",
        never=("mask_token",),
    ),
    Case(
        "thread_upgrade",
        Observation(
            log=sglang_log(1.02, 0.01, algorithm="EAGLE3", drafter="'org/eagle3-vl'"),
            config={"version": "0.5.5.post3"},
        ),
        "fail",
        first=("upgrade",),
        baselines=(
            Baseline("old", engine="sglang", version="0.5.4", method="eagle3", k=3, length=2.195, tok_s=90.0),
        ),
    ),
    Case(
        "thread_net_loss",
        Observation(
            log=sglang_log(
                2.0,
                0.33,
                algorithm="EAGLE3",
                drafter="'org/eagle3-30b'",
                tok_s=93.0,
                model="Qwen/Qwen3-30B-A3B",
            )
        ),
        "warn",
        first=("draft_cost",),
        statuses={"serve.acceptance": "pass", "serve.break_even": "warn"},
        baselines=(Baseline("off", engine="sglang", tok_s=146.0, ms_per_step=6.85),),
    ),
    Case(
        "thread_open_122b",
        Observation(after=page((0.18, 0.06, 0.03, 0.02, 0.01, *(0.0,) * 10), tok_s=20)),
        "fail",
        determined=False,
    ),
    Case(
        "thread_v1_refuses",
        Observation(
            log=vllm_log(
                version="0.33.0",
                lines=(
                    (
                        "ERROR NotImplementedError: DFlash drafters with mixed sliding/full attention require"
                        " the V2 model runner; relaunch with VLLM_USE_V2_MODEL_RUNNER=1."
                    ),
                    "RuntimeError: Engine core initialization failed.",
                ),
            ).replace("GET /health", "GET /x"),
            drafter_config=_SWA,
        ),
        "fail",
        first=("window",),
    ),
    Case(
        "thread_device_assert",
        Observation(
            log=vllm_log(
                lines=("ERROR AcceleratorError: CUDA error: device-side assert triggered", *DEAD_ENGINE)
            ),
            drafter_config=CONFIG,
        ),
        "fail",
        first=("device_assert",),
        determined=False,
        never=("mask_token", "hardware"),
    ),
    Case(
        "thread_id_48_of_48",
        Observation(
            log=vllm_log(layers=(2, 13, 24, 35, 46), k=15),
            drafter_config=edited(
                QWEN27, num_target_layers=48, ids=[1, 12, 23, 34, 48], eagle_aux_hidden_state_layer_ids=None
            ),
        ),
        "fail",
        first=("layer_count",),
    ),
    Case(
        "thread_candidate_selector",
        Observation(
            log=vllm_log(
                lines=(
                    "ERROR ValueError: There is no module named 'candidate_selector'",
                    "RuntimeError: Engine core initialization failed.",
                )
            ).replace("GET /health", "GET /x")
        ),
        "fail",
        first=("tensors",),
    ),
    Case(
        "thread_no_drafter",
        Observation(after=page(spec=False, tok_s=25), log=vllm_log(k=5, layers=None)),
        "fail",
        first=("not_speculating",),
        never=("weights",),
        statuses={"serve.speculation": "fail"},
    ),
    Case(
        "thread_ratio_is_no_length",
        Observation(after=page(tuple(0.68**at for at in range(1, 16)), tok_s=60)),
        "pass",
    ),
)


def even(length: float, k: int) -> tuple[float, ...]:
    """The even curve (one conditional acceptance throughout) of a given acceptance length."""
    low, high = 0.0, 0.9999
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (
            (middle, high) if 1 + sum(middle**at for at in range(1, k + 1)) < length else (low, middle)
        )
    return tuple(low**at for at in range(1, k + 1))


def _reference(name: str, length: float, k: int, method: str, model: str, drafts: int = 2000) -> Case:
    layers = None if method in ("mtp", "eagle3") else (2, 17, 32, 47, 62)
    log = vllm_log(version="0.33.0", method=method, k=k, model=model, layers=layers)
    return Case(
        f"healthy_{name}",
        Observation(after=page(even(length, k), drafts=drafts, tok_s=60.0), log=log),
        "pass",
    )


HEALTHY_RUNS: tuple[Case, ...] = (
    _reference("qwen3_8b_mt_bench", 4.24, 15, "dflash", "Qwen/Qwen3-8B"),
    _reference("qwen3_8b_humaneval", 6.50, 15, "dflash", "Qwen/Qwen3-8B"),
    _reference("qwen3_8b_gsm8k", 6.54, 15, "dflash", "Qwen/Qwen3-8B"),
    _reference("qwen3_8b_floor", 3.82, 15, "dflash", "Qwen/Qwen3-8B"),
    _reference("qwen38_27b_dflash2", 6.14, 7, "dflash", "Qwen/Qwen3.8-27B"),
    _reference("qwen38_27b_dflash2_card", 5.46, 7, "dflash", "Qwen/Qwen3.8-27B"),
    _reference("qwen38_27b_dflash2_64k", 2.5, 7, "dflash", "Qwen/Qwen3.8-27B-FP8"),
    _reference("qwen38_27b_mtp_64k", 2.8, 3, "mtp", "Qwen/Qwen3.8-27B-FP8"),
    _reference("qwen36_27b_code", 4.7, 5, "dflash", "Qwen/Qwen3.6-27B"),
    _reference("qwen36_27b_prose", 2.8, 5, "dflash", "Qwen/Qwen3.6-27B"),
    _reference("mtp", 3.4, 3, "mtp", "Qwen/Qwen3.6-27B"),
    _reference("qwen36_35b_mtp", 2.36, 3, "mtp", "Qwen/Qwen3.6-35B-A3B"),
    _reference("qwen36_35b_dflash", 4.5, 15, "dflash", "Qwen/Qwen3.6-35B-A3B"),
    _reference("qwen35_35b", 5.0, 7, "dflash", "Qwen/Qwen3.5-35B-A3B"),
    _reference("gemma_mtp", 3.9, 4, "mtp", "google/gemma-4-31b"),
    _reference("gemma_code", 5.2, 7, "dflash", "google/gemma-4-31b"),
    _reference("gemma_prose", 3.0, 7, "dflash", "google/gemma-4-31b"),
    _reference("eagle3_a", 2.60, 3, "eagle3", "a/b"),
    _reference("eagle3_b", 2.26, 3, "eagle3", "a/b"),
    _reference("eagle3_c", 2.56, 3, "eagle3", "a/b"),
    Case(
        "healthy_club_curve",
        Observation(after=page((0.93, 0.81, 0.68, 0.56, 0.48), tok_s=87), log=vllm_log(k=5, layers=None)),
        "pass",
    ),
    Case(
        "healthy_sglang_dflash",
        Observation(
            log=sglang_log(
                4.5, 0.23, algorithm="DFLASH", drafter="'z-lab/d'", slots=16, model="Qwen/Qwen3.6-35B-A3B"
            )
        ),
        "pass",
    ),
    Case(
        "healthy_sglang_mtp_old_rate",
        Observation(log=sglang_log(2.36, 0.59, model="Qwen/Qwen3.6-35B-A3B")),
        "pass",
    ),
)

# Things that look odd and are well: none of them may raise an alarm.
ODD_BUT_WELL: tuple[Case, ...] = (
    Case(
        "odd_ngram_without_a_log",
        Observation(after=page((0.66, 0.52, 0.45, 0.40, 0.37), drafts=1077, tok_s=685, covered=0.72)),
        "pass",
        says=("not comparable",),
    ),
    Case(
        "odd_ngram_that_rarely_matches",
        Observation(after=page((0.10, 0.02, 0, 0, 0), drafts=400, tok_s=500, covered=0.2)),
        "pass",
        never=("weights", "mask_token"),
    ),
    Case(
        "odd_warm_restart",
        tiny(HEALTHY, 866, UNSHIFTED_FILE, version="0.25.0"),
        "pass",
        out=("compile_cache",),
    ),
    Case(
        "odd_other_ids_of_a_published_drafter",
        Observation(
            after=page(even(5.5, 7), tok_s=60),
            log=vllm_log(version="0.25.1", model="Qwen/Qwen3.8-27B", layers=(6, 20, 34, 48, 62)),
            drafter_config=edited(
                QWEN27, block_size=8, ids=[5, 19, 33, 47, 61], eagle_aux_hidden_state_layer_ids=None
            ),
        ),
        "pass",
        never=("layer_ids", "one_early"),
    ),
    Case(
        "odd_draft_model_of_another_rope",
        Observation(
            after=page((0.8, 0.65, 0.52, 0.42, 0.34), tok_s=90),
            log=vllm_log(method="draft_model", k=5),
            drafter_config={"architectures": ["LlamaForCausalLM"], "vocab_size": 4096},
            target_config={"vocab_size": 4096, "rope_theta": 5e5},
        ),
        "pass",
        never=("rope",),
    ),
    Case(
        "odd_all_reduce_off_as_asked",
        Observation(
            after=page(even(4.4, 5), tok_s=87), log=vllm_log(k=5, tp=2, reduce_off=True, layers=None)
        ),
        "pass",
        statuses={"serve.all_reduce": "pass"},
    ),
    Case(
        "odd_no_graphs_on_cpu",
        Observation(
            after=page(spec=False, tok_s=20),
            log=vllm_log(method=None, eager=True).replace("device_config=cuda", "device_config=cpu"),
        ),
        "pass",
        statuses={"serve.graphs": "skip"},
        never=("graphs_off",),
    ),
    Case(
        "odd_another_baseline_engine",
        tiny(HEALTHY, 866),
        "pass",
        also=("foreign_baseline",),
        baselines=(Baseline("sglang", engine="sglang", method="mtp", k=3, length=3.4, tok_s=800.0),),
    ),
)

INFRASTRUCTURE: tuple[Case, ...] = (
    Case(
        "slow_tp2",
        Observation(
            after=page(even(4.4, 5), tok_s=40), log=vllm_log(k=5, tp=2, reduce_off=True, layers=None)
        ),
        "fail",
        first=("transport",),
        also=("drift",),
        out=("graphs_off",),
        baselines=(
            Baseline(
                "good",
                engine="vllm",
                version="0.20.1",
                method="dflash",
                k=5,
                length=4.4,
                tok_s=87.0,
                ms_per_step=50.6,
                settings={"tp": 2, "custom_all_reduce": True, "cuda_graphs": True},
            ),
        ),
    ),
    Case(
        "slow_and_wrong",
        Observation(
            after=page((0.45, 0.14, 0.02, 0, 0, 0, 0), tok_s=120),
            log=vllm_log(),
            drafter_config=edited(CONFIG, rope_theta=None),
        ),
        "fail",
        first=("rope",),
        also=("starved_cpu",),
        says=("and besides, infrastructure",),
        baselines=(RIGHT,),
        statuses={"serve.step": "fail", "serve.acceptance": "fail"},
    ),
    Case(
        "out_of_memory",
        Observation(
            log=vllm_log(
                lines=(
                    "ERROR torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB",
                    "RuntimeError: Engine core initialization failed.",
                )
            ).replace("GET /health", "GET /x")
        ),
        "fail",
        first=("memory",),
    ),
)

_NEAR_MASK = (0.744, 0.174, 0.066, 0, 0, 0, 0)
_SWAPPED = (0.077, 0.001, 0, 0, 0, 0, 0)
_LOWER = (0.66, 0.47, 0.35, 0.25, 0.15, 0.09, 0.05)

BESIDE: tuple[Case, ...] = (
    Case(
        "mask_near+right",
        tiny(_NEAR_MASK, 386, edited(CONFIG, mask=4094)),
        "fail",
        first=("mask_token",),
        out=("rope", "drift"),
        says=("mask_token_id: 4090 -> 4094 since the baseline",),
        baselines=(RIGHT_FILE,),
        never=("other_drafter",),
    ),
    Case(
        "theta_lower+right",
        tiny((0.76, 0.46, 0.20, 0.04, 0.02, 0.01, 0), 598, edited(CONFIG, rope_theta=1e5)),
        "fail",
        first=("rope",),
        out=("mask_token", "drift"),
        says=("rope_theta: 1000000 -> 100000 since the baseline",),
        baselines=(RIGHT_FILE,),
    ),
    Case(
        "swapped_border",
        tiny(_SWAPPED, 207, drafts=1000),
        "fail",
        first=("mask_token", "rope"),
        also=("tensors",),
        says=("wrong mask token, or wrong or missing rope_theta, or tensors missing or mixed up",),
    ),
    Case(
        "swapped+right",
        tiny(_SWAPPED, 207, drafts=1000),
        "fail",
        first=("tensors",),
        out=("mask_token", "rope", "weights", "drift"),
        also=("other_drafter",),
        baselines=(RIGHT_FILE,),
    ),
    Case(
        "other_weights+right",
        tiny(_LOWER, 690),
        "fail",
        first=("other_drafter",),
        out=("mask_token", "rope", "drift"),
        says=("another drafter than the baseline's: /models/published -> /models/drafter",),
        baselines=(RIGHT_FILE,),
    ),
    Case(
        "same_drafter_elsewhere",
        tiny(HEALTHY, 866),
        "pass",
        never=("other_drafter", "drift"),
        baselines=(RIGHT_FILE,),
    ),
    Case(
        "off+right",
        Observation(after=page(spec=False, tok_s=640), log=vllm_log(method=None)),
        "fail",
        first=("speculation_off",),
        out=("hardware", "starved_cpu"),
        never=("drift", "other_drafter"),
        says=("no speculation, and the baseline speculates",),
        baselines=(RIGHT_FILE,),
        determined=True,
    ),
    Case(
        "off_cpu_starved+right",
        Observation(after=page(spec=False, tok_s=120), log=vllm_log(method=None)),
        "fail",
        first=("starved_cpu",),
        also=("speculation_off", "hardware"),
        baselines=(RIGHT_FILE,),
    ),
    Case(
        "right_against_off",
        tiny(HEALTHY, 866),
        "pass",
        says=("the baseline does not speculate, this one does",),
        statuses={"serve.break_even": "pass", "serve.speed": "skip"},
        baselines=(OFF,),
    ),
    Case(
        "runner_changed",
        Observation(after=page(HEALTHY, tok_s=400), log=vllm_log()),
        "fail",
        first=("drift",),
        also=("starved_cpu", "hardware"),
        baselines=(replace(RIGHT, settings={**RIGHT.settings, "runner": "v2"}),),
    ),
)

CASES: tuple[Case, ...] = MEASURED + THREADS + HEALTHY_RUNS + ODD_BUT_WELL + INFRASTRUCTURE + BESIDE
