"""Catalogue rows of ``provcheck serve`` and ``provcheck compare``."""

from __future__ import annotations

from checks.data.entry import Entry

_H200 = "measured with vLLM 0.20.1 and a trained drafter on an H200"

SERVE: dict[str, Entry] = {
    "serve.ready": Entry(
        "The server generates tokens",
        "vLLM's /health stays 200 while the first request would kill the engine, and SGLang's can be switched"
        " to a shallow one. Only a streamed completion with text in it proves that the service is ready.",
        "fail engine serve.ready the server is there and generates nothing: 500, EngineDeadError",
        "Read the engine's log: provcheck serve URL --log FILE --diagnose names what it says.",
        "five drafter faults start, answer /health and die at the first request; " + _H200,
    ),
    "serve.generates": Entry(
        "Tokens came out in this window or record",
        "A record is evidence of a working service only when its counters show generated tokens. A log that"
        " says that the engine died or refused to start is quoted, with the reason it gives.",
        "fail engine serve.generates the engine refused to start: ValueError: For parallel drafting, the"
        " draft model config must have ...",
        "Mend what the quoted line says, restart, and let one completion prove it.",
        _H200,
    ),
    "serve.output": Entry(
        "The answers say something",
        "A broken model answers 200 with empty texts, one word over and over, or unreadable characters, and"
        " every number of such a run is meaningless. Content and reasoning are counted apart: reasoning"
        " inside the content means that no reasoning parser is set.",
        "fail engine serve.output 12 answers, 3100 characters of content, 0 of reasoning: 12 of 12 answers"
        " repeat one word",
        "Check chat template, quantisation and weights; set --reasoning-parser.",
        "z-lab/dflash#133 for what the thinking mode does to acceptance",
    ),
    "serve.window": Entry(
        "The measured window was ours alone, and whole",
        "Counters are the engine's, not the client's: requests of others in the window mix their acceptance"
        " and speed into ours.",
        "warn engine serve.window others were served during the measurement: its counts and speed are mixed",
        "Measure when the service is idle, or use --passive to judge the live traffic.",
        "generated tokens counted against tokens received",
    ),
    "serve.metrics": Entry(
        "The engine publishes its counters",
        "Acceptance cannot be seen from outside without the engine's own counters.",
        "unknown engine serve.metrics the server has no /metrics page, so acceptance cannot be counted",
        "SGLang: --enable-metrics. vLLM: leave --disable-log-stats out.",
        "vLLM 0.20.1 and SGLang 0.5.11 sources",
    ),
    "serve.speculation": Entry(
        "Speculation is on when it was asked for",
        "An engine that does not find the drafter, or an option it does not read, serves without speculation"
        " and says so nowhere but in missing counters.",
        "fail engine serve.speculation speculation was asked for and the engine counts no drafts",
        "Check the drafter's path; provcheck flags checks the spelling of the option for this version.",
        "noonghunna/club-3090#18: 25 tok/s instead of 125",
    ),
    "serve.acceptance": Entry(
        "The drafter's tokens are accepted",
        "Mean acceptance length and the curve by position tell a healthy drafter from a dead one, and the"
        " shape of the curve names the family of the fault: position 0 gone is a wrong mask token, rope or"
        " weights; a cliff is rope; an even low curve is layers, prompts or target. Lengths are used, never"
        " rates: their definition differs between engines and versions. Fewer than 200 drafts are unknown.",
        "fail drafter serve.acceptance acceptance length 1.12 of at most 16 (3000 drafts, by position"
        " .079/.039): garbage drafter",
        "provcheck serve --diagnose ranks the causes; provcheck drafter lints the files.",
        _H200 + "; vllm-project/speculators#613",
    ),
    "serve.acceptance_baseline": Entry(
        "Acceptance holds against the baseline",
        "A drafter may decay without dying: a new revision of the target, another template, longer prompts.",
        "warn drafter serve.acceptance_baseline acceptance length 3.21, baseline 3.96: 0.81x",
        "provcheck serve --diagnose; provcheck compare BASELINE NOW shows the settings that changed.",
        "identical runs differ by less than 5 % in length",
    ),
    "serve.layers": Entry(
        "The engine captures the layers the drafter was trained on",
        "The log line with the effective ids is the only place where this shows. vLLM before 0.22.0 reads "
        "target_layer_ids one layer early, which costs 3 to 9 %; ids two off cost up to 40 %.",
        "warn engine serve.layers layers captured [1, 5, 9], trained [2, 6, 10] in the engine's counting:"
        " every one is one layer early",
        "Put the ids plus one into the top-level eagle_aux_hidden_state_layer_ids, or upgrade.",
        "vllm#40727; " + _H200,
    ),
    "serve.drafter_config": Entry(
        "The drafter's config contradicts neither itself nor the target",
        "Engines accept a wrong mask token, rope_theta or vocabulary silently; a missing rope_theta becomes"
        " 10000. The rules are those of provcheck drafter, over what the record or the folders that the engine"
        " names hold; what only a published relative would have otherwise is not held against healthy numbers.",
        "fail drafter serve.drafter_config mask_token_id 0 is the end-of-text token, which the target emits",
        "provcheck drafter DRAFTER_DIR --target TARGET_DIR --engine vllm==VERSION judges every field.",
        _H200,
    ),
    "serve.tensors": Entry(
        "The drafter's checkpoint is complete",
        "vLLM fills a missing tensor of a DFlash drafter with what was in memory and says nothing; a missing"
        " norm leaves the numbers nearly healthy, so only the list of tensors shows it.",
        "fail drafter serve.tensors 1 tensors are missing: fc.weight",
        "Fetch the checkpoint again; provcheck drafter reads the list.",
        _H200,
    ),
    "serve.draft_tokens": Entry(
        "As many tokens are drafted as one pass gives",
        "A block drafter yields block_size - 1 tokens per pass. More are never accepted, fewer are thrown"
        " away and may fall below break-even with a perfectly healthy drafter.",
        "warn drafter serve.draft_tokens 3 drafted tokens, the drafter's block gives 7: the rest of every"
        " pass is thrown away",
        "num_speculative_tokens = block_size - 1; SGLang counts the anchor too: block_size.",
        _H200,
    ),
    "serve.compile_cache": Entry(
        "Compiled graphs belong to the present config",
        "vLLM 0.20.1 does not key its compile cache by dflash_config.target_layer_ids: after an edit the log"
        " shows the new ids and the measurement is that of the old ones.",
        "warn engine serve.compile_cache the log says layers [1, 6, 11], every counter equals the baseline's"
        " run with [1, 5, 9]: the old graph is still in use",
        "Clear ~/.cache/vllm/torch_compile_cache, restart, measure again.",
        _H200,
    ),
    "serve.graphs": Entry(
        "CUDA graphs are on",
        "Without graphs every step waits for the CPU: 0.22x without speculation, 0.48x with it in the"
        " recorded case.",
        "warn engine serve.graphs CUDA graphs are off",
        "Drop --enforce-eager / --disable-cuda-graph.",
        _H200,
    ),
    "serve.all_reduce": Entry(
        "Custom all-reduce over several GPUs",
        "vLLM takes its custom all-reduce off by itself when it finds no peer access, and logs one line.",
        "warn host serve.all_reduce custom all-reduce is off over 2 GPUs, and the engine took it off itself:"
        " your platform lacks GPU P2P capability",
        "provcheck nccl proves or refutes peer access.",
        "vLLM 0.20.1 and 0.33.0 sources",
    ),
    "serve.settings": Entry(
        "The settings in effect are the ones asked for",
        "What was written on the command line is not always what runs: backends fall back, options are"
        " renamed, another file is started.",
        "fail engine serve.settings kv_cache_dtype is auto, wanted fp8",
        "Start the service with the wanted settings; read its log for why it took another.",
        "the engine's own log line and /server_info",
    ),
    "serve.speed": Entry(
        "Decode speed of one request holds against the baseline",
        "Tokens per second after the first token, by time per output token. Chunks are no tokens under"
        " speculation, so the time between chunks is not used.",
        "fail engine serve.speed 18.0 tok/s decode for one request, baseline 73.5: 0.24x",
        "provcheck serve --diagnose splits the loss into acceptance and time per step.",
        "fail under 0.8, warn under 0.9; identical runs differ by 7 %",
    ),
    "serve.speed_at_once": Entry(
        "Decode speed with several requests at once",
        "Speculation and batching compete: what is fast for one may be slow for sixteen.",
        "warn engine serve.speed_at_once 31.0 tok/s per request of 16 at once, baseline 36.0",
        "As for serve.speed.",
        "fail under 0.8, warn under 0.9",
    ),
    "serve.step": Entry(
        "The time of one step is normal",
        "Speed is acceptance length over time per step. The machine and the engine own the time, the drafter"
        " owns the length: looking at both tells an infrastructure fault from a drafter fault. Without a baseline only"
        " a model so small that the host is the larger part of its step can be called slow.",
        "fail engine serve.step 17.9 ms per draft step, baseline 4.6: 3.92x",
        "provcheck gpus, load and nccl; give the engine whole CPUs; see that graphs are on.",
        _H200 + ": graphs off 2.8x, starved CPU 3.6x at unchanged length",
    ),
    "serve.break_even": Entry(
        "Speculation is faster than none",
        "A draft step costs more than a plain token. Below the acceptance length at which it pays, a healthy"
        " drafter is a net loss.",
        "warn engine serve.break_even 0.33x of speculation off, break-even at a length of 7.33, here 2.44: a"
        " net loss",
        "Draft fewer tokens, use a smaller drafter, or turn speculation off.",
        "sglang#29244; " + _H200,
    ),
    "serve.diagnosis": Entry(
        "The cause, ranked, with reasons why the others are out",
        "Several faults at once hide each other, so mending one shows no movement. All rules are asked; each"
        " either supports its cause, excludes it with a reason, or names the command that would settle it.",
        "fail engine serve.diagnosis drafter configuration: wrong mask token, or wrong or missing rope_theta"
        " (equal by these numbers); infrastructure excluded because acceptance counts tokens, not time",
        "Mend the causes of rank 1 together, then measure again.",
        "the rows of checks/data/causes.py, each with its source and a recorded case",
    ),
    "node.xid": Entry(
        "Xid lines that name the engine",
        "An out-of-range index in a kernel of the engine is logged by the driver as Xid 43 with the engine's"
        " name. It is an application error: the GPU is well.",
        "pass host node.xid Xid 43 names VLLM::EngineCor: an application error of the engine, not hardware",
        "Mend the engine's configuration (mask token, vocabulary); no reset is needed.",
        _H200 + ": mask token beyond the vocabulary",
    ),
}
