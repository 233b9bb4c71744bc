"""Combinations of options that an engine refuses or that undo each other, with the place in its sources.

A condition is ``--x`` (given and on), ``!--x`` (not given or off), ``--x=A|B`` (its value is one of these),
``--x!=A|B`` (given with another value); ``--x.KEY`` stands for a key of a JSON option, ``spec`` for
``--speculative-config``. All conditions of a row must hold. ``since`` and ``until`` are the first and last
version whose sources were read to say so; ``until`` empty: still so in the newest version read.
"""

from __future__ import annotations

from typing import NamedTuple


class Combination(NamedTuple):
    """One row. ``status``: fail when the engine stops, warn when it starts and overrides something."""

    engine: str
    when: tuple[str, ...]
    status: str
    message: str
    fix: str
    source: str
    since: str = ""
    until: str = ""


COMBINATIONS = (
    Combination(
        "vllm",
        ("--enable-auto-tool-choice", "!--tool-call-parser"),
        "fail",
        "--enable-auto-tool-choice without --tool-call-parser stops the start",
        "add --tool-call-parser with the parser of this model family",
        "validate_parsed_serve_args, entrypoints/*/cli_args.py, 0.20.0-0.33.0",
    ),
    Combination(
        "vllm",
        ("--enable-log-outputs", "!--enable-log-requests"),
        "fail",
        "--enable-log-outputs without --enable-log-requests stops the start",
        "add --enable-log-requests, or drop --enable-log-outputs",
        "validate_parsed_serve_args, entrypoints/*/cli_args.py, 0.20.0-0.33.0",
    ),
    Combination(
        "vllm",
        ("--enable-per-request-metrics", "--disable-log-stats"),
        "fail",
        "--enable-per-request-metrics needs the statistics that --disable-log-stats turns off",
        "drop --disable-log-stats",
        "validate_parsed_serve_args, entrypoints/common/cli_args.py, 0.33.0",
        since="0.33.0",
    ),
    Combination(
        "vllm",
        ("--grpc", "--grpc-port"),
        "fail",
        "--grpc and --grpc-port start two different gRPC servers and exclude each other",
        "keep --grpc-port with VLLM_USE_RUST_FRONTEND=1, or --grpc with --port",
        "validate_grpc_port_arg, entrypoints/common/cli_args.py, 0.33.0",
        since="0.33.0",
    ),
    Combination(
        "vllm",
        ("--spec-method", "spec.method"),
        "fail",
        "--spec-method and the key method of --speculative-config exclude each other",
        "give the method once",
        "create_speculative_config, engine/arg_utils.py, 0.33.0",
    ),
    Combination(
        "vllm",
        ("--spec-model", "spec.model"),
        "fail",
        "--spec-model and the key model of --speculative-config exclude each other",
        "give the drafter once",
        "create_speculative_config, engine/arg_utils.py, 0.33.0",
    ),
    Combination(
        "vllm",
        ("--spec-tokens", "spec.num_speculative_tokens"),
        "fail",
        "--spec-tokens and the key num_speculative_tokens of --speculative-config exclude each other",
        "give the number once",
        "create_speculative_config, engine/arg_utils.py, 0.33.0",
    ),
    Combination(
        "vllm",
        ("spec.tensor_parallel_size",),
        "fail",
        "--speculative-config has tensor_parallel_size, which is refused there",
        "call it draft_tensor_parallel_size (1, or the target's)",
        "SpeculativeConfig._verify_args, config/speculative.py, 0.20.1 and 0.33.0",
    ),
    Combination(
        "vllm",
        ("spec.method=dflash|eagle|eagle3|draft_model", "!spec.model", "!--spec-model"),
        "fail",
        "--speculative-config names a method that drafts with its own model and no model",
        'add "model" with the drafter\'s folder',
        "SpeculativeConfig.__post_init__, config/speculative.py, 0.20.1 and 0.33.0",
    ),
    Combination(
        "vllm",
        ("spec.method=dflash|eagle|eagle3|draft_model", "!spec.num_speculative_tokens", "!--spec-tokens"),
        "fail",
        "--speculative-config has a drafter and no num_speculative_tokens",
        'add "num_speculative_tokens" (DFlash: block_size - 1)',
        "SpeculativeConfig.__post_init__, config/speculative.py, 0.20.1 and 0.33.0",
    ),
    Combination(
        "vllm",
        ("spec.synthetic_acceptance_length", "spec.rejection_sample_method!=synthetic"),
        "fail",
        "synthetic_acceptance_length is refused unless rejection_sample_method is synthetic",
        'set "rejection_sample_method":"synthetic", or drop the length: it fakes acceptance',
        "SpeculativeConfig._verify_args, config/speculative.py, 0.33.0",
    ),
    Combination(
        "vllm",
        ("--attention-backend", "--attention-config.backend"),
        "fail",
        "--attention-backend and the key backend of --attention-config exclude each other",
        "give the back end once",
        "create_engine_config, engine/arg_utils.py, 0.20.1 and 0.33.0",
    ),
    Combination(
        "vllm",
        ("--cudagraph-capture-sizes", "--compilation-config.cudagraph_capture_sizes"),
        "fail",
        "--cudagraph-capture-sizes and the key of that name in --compilation-config exclude each other",
        "give the sizes once",
        "create_engine_config, engine/arg_utils.py, 0.20.1 and 0.33.0",
    ),
    Combination(
        "vllm",
        ("--max-cudagraph-capture-size", "--compilation-config.max_cudagraph_capture_size"),
        "fail",
        "--max-cudagraph-capture-size and the key of that name in --compilation-config exclude each other",
        "give the size once",
        "create_engine_config, engine/arg_utils.py, 0.20.1 and 0.33.0",
    ),
    Combination(
        "vllm",
        ("--enforce-eager", "--compilation-config.cudagraph_mode!=NONE"),
        "warn",
        "--enforce-eager turns CUDA graphs off, whatever cudagraph_mode of --compilation-config says",
        "drop --enforce-eager: without graphs a step took 2.8 times as long when it was measured",
        "VllmConfig.__post_init__, config/vllm.py, 0.20.1 and 0.33.0",
    ),
    Combination(
        "vllm",
        ("--uds", "--port"),
        "warn",
        "--uds is given, so --host and --port are ignored",
        "drop --port, or drop --uds",
        "FrontendArgs.uds, entrypoints/*/cli_args.py, 0.20.0-0.33.0",
    ),
    Combination(
        "vllm",
        ("--data-parallel-hybrid-lb", "--data-parallel-external-lb"),
        "fail",
        "--data-parallel-hybrid-lb and --data-parallel-external-lb exclude each other",
        "keep one load-balancing mode",
        "create_engine_config, engine/arg_utils.py, 0.33.0",
        since="0.33.0",
    ),
    Combination(
        "sglang",
        ("--speculative-algorithm=DFLASH", "!--speculative-draft-model-path"),
        "fail",
        "DFLASH without --speculative-draft-model-path stops the start",
        "add --speculative-draft-model-path with the drafter's folder",
        "_handle_speculative_decoding 0.5.11 server_args.py:3330; _handle_dflash 0.5.23 speculative_hook.py",
        since="0.5.11",
    ),
    Combination(
        "sglang",
        ("--speculative-algorithm=DFLASH", "--pp-size!=1"),
        "fail",
        "DFLASH works with one pipeline stage only",
        "drop --pp-size; spread the model with --tp",
        "_handle_speculative_decoding 0.5.11 server_args.py:3325; _handle_dflash 0.5.23 speculative_hook.py",
        since="0.5.11",
    ),
    Combination(
        "sglang",
        ("--speculative-algorithm=DFLASH", "--enable-dp-attention"),
        "fail",
        "DFLASH does not work with --enable-dp-attention in this version",
        "drop --enable-dp-attention",
        "_handle_speculative_decoding 0.5.11 server_args.py:3320",
        since="0.5.11",
        until="0.5.11",
    ),
    Combination(
        "sglang",
        ("--speculative-draft-sink-size", "!--speculative-draft-window-size"),
        "fail",
        "--speculative-draft-sink-size needs --speculative-draft-window-size",
        "add --speculative-draft-window-size",
        "handle_speculative_decoding 0.5.23 speculative_hook.py",
    ),
    Combination(
        "sglang",
        ("--disable-cuda-graph-padding", "--enable-torch-compile"),
        "fail",
        "--disable-cuda-graph-padding with --enable-torch-compile compiles per batch size and is refused",
        "drop one of the two",
        "check_server_args 0.5.23 validation_hook.py",
        since="0.5.23",
    ),
    Combination(
        "sglang",
        ("--export-metrics-to-file", "!--export-metrics-to-file-dir"),
        "fail",
        "--export-metrics-to-file needs --export-metrics-to-file-dir",
        "add --export-metrics-to-file-dir",
        "check_server_args 0.5.23 validation_hook.py",
        since="0.5.23",
    ),
)


class Renamed(NamedTuple):
    """An option whose successor no release named in its parser; ``new`` may bring a value with it."""

    engine: str
    old: str
    new: str
    source: str


class Environment(NamedTuple):
    """A variable outside the engine's own name space, or older than every version read."""

    name: str
    engine: str
    message: str
    fix: str
    source: str


_DECODING = "DecodingConfig of vLLM 0.10.2 and StructuredOutputsConfig of 0.11.2: the same fields"
_EPLB = "vLLM 0.10.2 arg_utils.py deprecates it; EPLBConfig has the field"
_MOE = "sglang 0.5.2 server_args.py: 'is deprecated. Please set ... instead'"

RENAMED = (
    Renamed("vllm", "--guided-decoding-backend", "--structured-outputs-config.backend", _DECODING),
    Renamed(
        "vllm",
        "--guided-decoding-disable-any-whitespace",
        "--structured-outputs-config.disable_any_whitespace true",
        _DECODING,
    ),
    Renamed(
        "vllm",
        "--guided-decoding-disable-additional-properties",
        "--structured-outputs-config.disable_additional_properties true",
        _DECODING,
    ),
    Renamed("vllm", "--eplb-window-size", "--eplb-config.window_size", _EPLB),
    Renamed("vllm", "--eplb-step-interval", "--eplb-config.step_interval", _EPLB),
    Renamed("vllm", "--num-redundant-experts", "--eplb-config.num_redundant_experts", _EPLB),
    Renamed("vllm", "--eplb-log-balancedness", "--eplb-config.log_balancedness true", _EPLB),
    Renamed("vllm", "--override-pooler-config", "--pooler-config", "vLLM 0.11.2 and 0.13.0 arg_utils.py"),
    Renamed(
        "vllm",
        "--task",
        "--runner pooling",
        "hint of FlexibleArgumentParser.error, vLLM 0.33.0: or --convert",
    ),
    Renamed(
        "vllm",
        "--disable-mm-preprocessor-cache",
        "--mm-processor-cache-gb 0",
        "vLLM 0.10.2 arg_utils.py: 'Please use `--mm-processor-cache-gb 0` instead'",
    ),
    Renamed(
        "vllm",
        "--enable-multimodal-encoder-data-parallel",
        "--mm-encoder-tp-mode data",
        "vLLM 0.10.2 arg_utils.py deprecates it; MMEncoderTPMode has weights and data",
    ),
    Renamed("sglang", "--enable-ep-moe", "--ep-size <tp-size>", _MOE),
    Renamed("sglang", "--enable-deepep-moe", "--moe-a2a-backend deepep", _MOE),
    Renamed("sglang", "--enable-triton-kernel-moe", "--moe-runner-backend triton_kernel", _MOE),
    Renamed("sglang", "--enable-flashinfer-cutlass-moe", "--moe-runner-backend flashinfer_cutlass", _MOE),
    Renamed("sglang", "--enable-flashinfer-trtllm-moe", "--moe-runner-backend flashinfer_trtllm", _MOE),
    Renamed("sglang", "--enable-flashinfer-mxfp4-moe", "--moe-runner-backend flashinfer_mxfp4", _MOE),
    Renamed(
        "sglang",
        "--max-micro-batch-size",
        "--pp-max-micro-batch-size",
        "sglang 0.5.2 and 0.5.5.post3 server_args.py: the same help text",
    ),
)

ENVIRONMENT = (
    Environment(
        "VLLM_ATTENTION_BACKEND",
        "vllm",
        "is read by no version after 0.13.0",
        "write --attention-backend",
        "vLLM 0.13.0 envs.py has it, 0.15.1 has not; --attention-backend in arg_utils.py",
    ),
    Environment(
        "VLLM_FLASH_ATTN_VERSION",
        "vllm",
        "is read by no version after 0.13.0",
        "write --attention-config.flash_attn_version",
        "vLLM 0.13.0 envs.py has it, 0.15.1 has not; AttentionConfig.flash_attn_version",
    ),
    Environment(
        "VLLM_USE_TRTLLM_ATTENTION",
        "vllm",
        "is read by no version after 0.13.0",
        "write --attention-config.use_trtllm_attention",
        "vLLM 0.13.0 envs.py has it, 0.15.1 has not; AttentionConfig.use_trtllm_attention",
    ),
    Environment(
        "VLLM_ALL2ALL_BACKEND",
        "vllm",
        "is read by no version after 0.15.1",
        "write --all2all-backend",
        "vLLM 0.15.1 envs.py has it, 0.17.1 has not; --all2all-backend in arg_utils.py",
    ),
    Environment(
        "VLLM_USE_V1",
        "vllm",
        "is read by no version after 0.10.2: there is one engine",
        "unset it",
        "vLLM 0.10.2 envs.py has it, 0.11.2 has not",
    ),
    Environment(
        "SGLANG_ENABLE_SPEC_V2",
        "sglang",
        "was last read by 0.5.20: speculation always runs as its second version",
        "unset it",
        "sglang 0.5.20 environ.py has it, 0.5.21 has not",
    ),
    Environment(
        "HF_HUB_ENABLE_HF_TRANSFER",
        "",
        "does nothing with huggingface-hub 1.x, which no longer uses hf_transfer",
        "set HF_XET_HIGH_PERFORMANCE=1",
        "huggingface_hub/constants.py 1.x",
    ),
)
