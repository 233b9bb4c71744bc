"""Catalogue rows of ``provcheck flags`` and ``provcheck fit``."""

from __future__ import annotations

from checks.data.entry import Entry

_TABLES = "checks/data/flags-vllm.json and flags-sglang.json, made from the released wheels by scripts/make-flag-tables"
_ARGPARSE = "argparse.ArgumentParser.parse_args, which both engines use"
_RULES = "checks/data/flagrules.py: each row names the function of the engine that refuses or overrides"

FLAGS: dict[str, Entry] = {
    "flags.parser": Entry(
        "What the command line was judged by",
        "An installed engine's own parser knows best; without one the table made from the released wheels does. "
        "A version that was not read is judged by its neighbours, and where they differ nothing is promised.",
        "warn engine flags.parser sglang 0.5.23rc1 was not read; judged by 0.5.22 and 0.5.23",
        "Give --python of an environment that has the engine, or add the version with scripts/make-flag-tables.",
        _TABLES,
    ),
    "flags.installed": Entry(
        "The installed parser answers within the deadline",
        "Building the real parser imports the whole engine. It is asked in a child of its own interpreter, and "
        "one that hangs is abandoned; the table is used instead, and this says so.",
        "warn engine flags.installed the parser of /opt/e/bin/python gave no answer in 120 s and was abandoned",
        "Raise --deadline, or mend the environment: 'python -c \"import vllm\"' must work there.",
        "vllm/engine/arg_utils.py and sglang/srt/server_args.py import torch",
    ),
    "flags.program": Entry(
        "The line starts the engine it is judged for",
        "A line for another engine, a word that belongs to no option, or a model that is not named: the engine "
        "refuses before it reads anything else.",
        "fail engine flags.program vllm 0.33.0: no option takes 'other'; one word besides options is the model",
        "Give the line of the engine named by --engine; quote values that hold spaces.",
        _ARGPARSE,
    ),
    "flags.unknown": Entry(
        "Every option is known",
        "One unknown option stops the start of either engine. A close spelling is offered; an option of a later "
        "version or of the other engine is said to be one.",
        "fail engine flags.unknown vllm 0.33.0: --max-modle-len is in no version of vllm that was read",
        "Write the offered spelling, or drop the option.",
        _TABLES,
    ),
    "flags.renamed": Entry(
        "No option has been renamed",
        "Options move between versions without an alias, so a line from a cookbook stops working. The new "
        "spelling is what a release announced while it still took the old one.",
        "fail engine flags.renamed sglang 0.5.23: --mamba-scheduler-strategy is now --mamba-radix-cache-strategy",
        "Write the new spelling; facts.corrected in --json is the whole line.",
        _TABLES,
    ),
    "flags.removed": Entry(
        "No option has been removed",
        "An option without a successor stops the start although the feature may still be there, under other "
        "terms or always on.",
        "fail engine flags.removed vllm 0.33.0: --calculate-kv-scales is gone without a successor",
        "Drop it, and read the release notes of the version that dropped it for what replaces its effect.",
        _TABLES,
    ),
    "flags.deprecated": Entry(
        "No option is on its way out",
        "The engine still takes it and warns; one of the next versions will not.",
        "warn engine flags.deprecated sglang 0.5.23: --disable-cuda-graph: Deprecated.",
        "Write what the finding says before the next upgrade.",
        _TABLES,
    ),
    "flags.abbreviated": Entry(
        "No option is shortened beyond recognition",
        "Both parsers take any unique beginning of an option. A new option that starts alike makes it ambiguous, "
        "and an option that was removed may silently become another one.",
        "fail engine flags.abbreviated vllm 0.33.0: --max-num fits --max-num-active-seqs, --max-num-batched-tokens",
        "Write options in full.",
        _ARGPARSE,
    ),
    "flags.arity": Entry(
        "Every option has as many values as it takes",
        "A value that is missing, or one attached to a switch, stops the start.",
        "fail engine flags.arity vllm 0.33.0: --tensor-parallel-size needs a value and has none",
        "Give the value after the option, as one word.",
        _ARGPARSE,
    ),
    "flags.value": Entry(
        "Every value is of its option's type",
        "A text where a number belongs stops the start. vLLM reads 1k as 1000 and 1K as 1024, SGLang 1Ki.",
        "fail engine flags.value vllm 0.33.0: --tensor-parallel-size 'two' is no whole number",
        "Give a value of the type that the finding names.",
        _TABLES,
    ),
    "flags.choice": Entry(
        "Every value is one that its option takes",
        "Choices come and go with versions: methods, parsers, back ends. A parser name that is not registered "
        "stops vLLM after it has loaded its libraries.",
        "fail engine flags.choice vllm 0.33.0: --dtype 'bf16' is none of auto, bfloat16, float, float16",
        "Use one of the values named, or register the name with the plug-in option.",
        _TABLES,
    ),
    "flags.json": Entry(
        "JSON values have known keys and fitting values",
        "Records such as --speculative-config forbid unknown keys; a misspelt one stops the start. Keys that a "
        "version dropped are said with the last version that had them.",
        "fail engine flags.json vllm 0.33.0: --speculative-config has the key 'num_speculative_token'",
        "Write the offered key; give numbers without quotes and texts with double ones.",
        "pydantic dataclasses in vllm/config with extra='forbid'",
    ),
    "flags.conflict": Entry(
        "No two settings exclude or undo each other",
        "Each option alone is right and together they stop the start, or one of them is ignored.",
        "fail engine flags.conflict vllm 0.33.0: --enable-auto-tool-choice without --tool-call-parser stops the start",
        "Change what the finding names.",
        _RULES,
    ),
    "flags.repeated": Entry(
        "No option is given twice",
        "The last one holds, and a reader of the line sees the first.",
        "warn engine flags.repeated vllm 0.33.0: --port is given twice and the last one holds",
        "Keep one.",
        _ARGPARSE,
    ),
    "flags.env": Entry(
        "Every engine variable is read by this version",
        "A variable that nothing reads is worse than none: the line looks tuned and is not. Names are compared "
        "with every name that the sources and libraries of the wheel contain.",
        "warn engine flags.env sglang 0.5.23: SGLANG_ENABLE_SPEC_V2 was last read by 0.5.20",
        "Unset it, or set what replaced it.",
        _TABLES,
    ),
    "flags.config": Entry(
        "No option hides in a file",
        "A table cannot follow --config into a file, so what stands there is not judged and not green.",
        "unknown engine flags.config vllm 0.33.0: the options in the file of --config (c.yaml) are not judged",
        "Ask the installed parser with --python, or give the options on the line.",
        "vLLM FlexibleArgumentParser._pull_args_from_config, SGLang ConfigArgumentMerger",
    ),
    "flags.secret": Entry(
        "No secret stands on the command line",
        "Every user of the machine can read the arguments of every process.",
        "warn engine flags.secret vllm 0.33.0: the value of --api-key is visible to every user in /proc",
        "Give the key by environment (VLLM_API_KEY) or by a file that only the service can read.",
        "proc(5), /proc/PID/cmdline",
    ),
    "fit.ranks": Entry(
        "Tensor parallel divides the model",
        "Heads are divided by ranks. What does not divide is refused at start, by either engine; with more ranks "
        "than key/value heads each head is kept several times.",
        "fail engine fit.ranks tensor parallel 3 is refused: target: 4 key/value heads and 3 ranks",
        "Use the number of ranks that the finding names.",
        "verify_with_parallel_config, vllm/config/model.py 0.20.1; divide() in gated_delta_net_state_shape",
    ),
    "fit.positions": Entry(
        "The context is within the model's positions",
        "Beyond the positions a model was trained for, both engines refuse unless they are told that rope is "
        "scaled.",
        "fail target fit.positions a context of 40961 is beyond the model's 40960 positions",
        "Ask for less, or add the rope scaling that the model card gives.",
        "max_position_embeddings in config.json; _get_and_verify_max_len, vLLM 0.20.1",
    ),
    "fit.weights": Entry(
        "The size of the weights is known",
        "Every rank holds its share of the matrices and the whole of norms, routers and down-projections. MTP "
        "heads and a vision tower count only when they are loaded.",
        "pass target fit.weights 25.87 GiB of 51.75 GiB weights on each GPU, from the index of q",
        "Fetch model.safetensors.index.json, or the one model.safetensors where there is no index.",
        "safetensors headers and index; ReplicatedLinear and ColumnParallelLinear in both engines",
    ),
    "fit.cache": Entry(
        "The cache of one request is known",
        "Full layers grow with the context, window layers do not, recurrent layers hold a state, latent attention "
        "is the same on every rank. A kind of layer that is not understood is said and not guessed.",
        "pass target fit.cache one request of 131072 tokens needs 4.16 GiB of cache on each GPU",
        "Where it is unknown: start the engine once and read its own cache size from the log.",
        "v1/core/kv_cache_utils.py, vLLM 0.20.1; pool_configurator.py, SGLang 0.5.11; checked against logged sizes",
    ),
    "fit.memory": Entry(
        "The model serves this context length on these GPUs",
        "Weights, cache and what the engine keeps for itself against its share of the smallest GPU. Weights and "
        "cache are computed; vLLM's own part is measured by it at start, so here it is a range, and between its "
        "ends the answer is 'may fit'.",
        "fail host fit.memory it does not fit: 25.87 weights + 1.15 cache + 0.71 to 4.98 for the engine itself GiB",
        "Make one of the changes that the finding names; each of them alone, or each named pair, is enough.",
        "determine_available_memory, vllm/v1/worker/gpu_worker.py 0.20.1; _handle_gpu_memory_settings, SGLang 0.5.11",
    ),
}
