"""Every finding that provcheck can give: what it looks at, why it matters, how it looks, how to mend it.

``provcheck explain`` and the documentation are made from these rows; a test holds them against the code.
"""

from __future__ import annotations

from checks.data.answers_catalogue import ANSWERS
from checks.data.entry import Entry
from checks.data.flags_catalogue import FLAGS
from checks.data.gpus_catalogue import GPUS
from checks.data.load_catalogue import LOAD
from checks.data.nccl_catalogue import NCCL
from checks.data.node_catalogue import NODE
from checks.data.readers_catalogue import READERS
from checks.data.serve_catalogue import SERVE

__all__ = ["CATALOGUE", "Entry"]

CATALOGUE: dict[str, Entry] = {
    "drafter.config": Entry(
        "The drafter has a config.json",
        "Weights carry sizes, but not the layer ids, the mask token, the RoPE base or the window."
        " A config written by guess starts, answers, and drafts noise.",
        "fail drafter drafter.config there is no config.json beside the weights",
        "Get it from the publisher, or let 'provcheck drafter --write' make it from weights, "
        "target and published relatives.",
        "the incident: one bare file, config guessed, acceptance length 1.12",
    ),
    "drafter.fields": Entry(
        "Fields have the right type",
        "A field of the wrong type is refused at start, or read as something else.",
        "fail drafter drafter.fields hidden_size is '256', expected a whole number from 1 on",
        "Give the field its proper type.",
        "transformers 5.6.0 strict configs",
    ),
    "drafter.engine": Entry(
        "This engine version runs drafters of this kind",
        "DFlash came with SGLang 0.5.11 and is in vLLM 0.20.1; second-generation drafters need "
        "vLLM's V2 runner; GGUF belongs to llama.cpp. Some combinations degrade silently instead "
        "of refusing.",
        "fail drafter drafter.engine sglang 0.5.10.post1 cannot run DFlash drafters",
        "Use a version that the finding names.",
        "SGLang 0.5.10.post1 and 0.5.11; noonghunna/club-3090#1064; vllm#49559",
    ),
    "drafter.defaults": Entry(
        "Nothing left out becomes something wrong",
        "transformers fills in what a config leaves out: rope_theta becomes 10000, vocab_size "
        "151936, use_sliding_window false. vLLM's own default for rope_theta comes too late.",
        "warn drafter drafter.defaults fields that are left out become something else: rope_theta"
        " becomes 10000.0 (right: 10000000.0)",
        "Write every field; 'provcheck drafter --write' does it.",
        "transformers 5.6.0 configuration_qwen3.py; Blackwellboy/model-serving-minefield#107",
    ),
    "drafter.revision": Entry(
        "The revision is known, and one",
        "Repositories held different drafters at different commits: other layers, other ids, "
        "other windows. Weights of one commit and config of another need not belong together.",
        "warn drafter drafter.revision nothing says which revision this is",
        "Download with a pinned commit and name the folder <name>@<commit>.",
        "z-lab/dflash#152",
    ),
    "drafter.tensors": Entry(
        "All tensors are there",
        "DFlash's loader returns nothing to compare, so missing tensors are never noticed at "
        "load. fc.weight missing: acceptance length 1.04; hidden_norm.weight missing: 3.94, which"
        " only this list can find.",
        "fail drafter drafter.tensors 1 tensors are missing: fc.weight",
        "Get the complete weights of one revision.",
        "vLLM 0.20.1 and 0.33.0 load_weights; measured on vLLM 0.20.1",
    ),
    "drafter.geometry": Entry(
        "The config describes the weights",
        "Widths that do not fit are refused; a wrong number of heads that keeps the width loads "
        "and computes nonsense.",
        "fail drafter drafter.geometry the config does not describe the weights: "
        "num_key_value_heads 4, weights 2",
        "Take the numbers from the weights; 'provcheck drafter --write' does it.",
        "vLLM 0.20.1: no check of head counts",
    ),
    "drafter.target_width": Entry(
        "fc takes hidden states of this target",
        "fc's width is the number of captured layers times the target's hidden size.",
        "fail drafter drafter.target_width the drafter is 256 wide and its fc takes 768; the "
        "target's hidden states are 320 wide",
        "Use the drafter made for this target.",
        "dflash 0.1.0 DFlashDraftModel",
    ),
    "drafter.dtype": Entry(
        "dtype is that of the weights",
        "float16 cannot hold bfloat16's range, and float32 costs memory.",
        "warn drafter drafter.dtype the config says float16, the weights are BF16",
        "Write the dtype of the weights.",
        "vllm#40334",
    ),
    "drafter.ids_read": Entry(
        "Layer ids stand where this engine looks",
        "Engines read different fields. One that finds none falls back to ids of its own (vLLM: "
        "the target's three EAGLE-3 layers; SGLang: the formula).",
        "fail drafter drafter.ids_read the config has no layer ids",
        "Let 'provcheck drafter --write' make the file for this engine.",
        "vLLM 0.20.1 gpu_model_runner, 0.33.0 eagle3_utils; SGLang 0.5.11 dflash_utils",
    ),
    "drafter.ids_count": Entry(
        "As many layer ids as fc takes",
        "With too few captured layers the engine starts, answers /health, and dies at the first request.",
        "fail drafter drafter.ids_count layer [2] is listed twice",
        "List exactly as many different layers as the finding says.",
        "measured on vLLM 0.20.1: mat1 and mat2 shapes cannot be multiplied",
    ),
    "drafter.ids_order": Entry(
        "Layer ids rise",
        "fc was trained on layers in rising order. vLLM sorts, so the same file is good there and"
        " garbage in an engine that honours the order (1.41 instead of 3.96).",
        "warn drafter drafter.ids_order ids [10, 6, 2] do not rise",
        "Write the ids in rising order.",
        "measured on vLLM 0.20.1 and in the reference loop",
    ),
    "drafter.ids_range": Entry(
        "Layer ids lie within the target",
        "An id beyond the last layer captures nothing; usually ids counted from 1 were put where "
        "ids from 0 belong.",
        "fail drafter drafter.ids_range ids [15] in eagle_aux_hidden_state_layer_ids point "
        "outside the target",
        "Use the ids for a target of this depth.",
        "charlie12345/ROCmFPX#44; vllm-project/speculators#705",
    ),
    "drafter.ids_convention": Entry(
        "File and engine count layers alike",
        "Three ways of counting exist. vLLM before 0.22 (V2 runner: before 0.24) takes an id from"
        " 0 for a count and captures one layer early: 9 % on a 12-layer pair, 3-5 % on an 8B "
        "model. It makes no dead drafter.",
        "warn drafter drafter.ids_convention vllm 0.20.1 captures the outputs of layers [0, 8, "
        "16, 24, 32] where the file means [1, 9, 17, 25, 33]",
        "Put the shifted ids into eagle_aux_hidden_state_layer_ids at the top level, and clear "
        "vLLM's compile cache: its key ignores dflash_config.",
        "vllm#40727; measured on vLLM 0.20.1",
    ),
    "drafter.ids_family": Entry(
        "Layer ids are the trained ones",
        "Nothing in the weights tells them. Published drafters follow a spacing rule, with "
        "exceptions. Ids within two layers bend the curve (2.4 of 4.0 on a 12-layer pair, less on"
        " a deep target); no set of ids alone went below 1.39.",
        "fail drafter drafter.ids_family 4 of 5 ids are off: [1, 17, 33, 49, 63] where [1, 16, "
        "31, 46, 61] were trained",
        "Write the ids of the family, or of relatives (--siblings); a spacing alone stays unconfirmed.",
        "sgl-project/SpecForge configs; dflash 0.1.0 build_target_layer_ids; measured on vLLM 0.20.1",
    ),
    "drafter.mask": Entry(
        "The mask token is the trained one",
        "Every drafted position starts as this token. A wrong id kills the first position "
        "already: acceptance length 1.10 to 1.11, whatever else is right. No engine but SGLang "
        "even checks that it is within the vocabulary.",
        "fail drafter drafter.mask mask id 248044 where 248070 was trained",
        "Write the id of the family or of a sibling with the same vocabulary; do not guess.",
        "measured on vLLM 0.20.1",
    ),
    "drafter.rope": Entry(
        "rope_theta is the trained one",
        "A base 10 times off keeps the first position and cuts the tail (2.4 of 4.0), 100 times "
        "1.6 to 1.8, 1000 times 1.13. Left out, it silently becomes 10000.",
        "fail drafter drafter.rope rope_theta is absent and silently becomes 10000: 1000 times "
        "too low (right: 10000000)",
        "Write the base of the family, else the target's.",
        "measured on vLLM 0.20.1; vllm-project/speculators#613",
    ),
    "drafter.vocab": Entry(
        "Both have one vocabulary",
        "A smaller one never proposes the ids beyond it and looks healthy otherwise; a larger one"
        " kills the engine at the first request.",
        "fail drafter drafter.vocab vocab_size 151936 (absent, so the silent default) is smaller "
        "than the target's 248320",
        "Write the target's vocab_size.",
        "measured on vLLM 0.20.1",
    ),
    "drafter.num_target_layers": Entry(
        "The drafter was made for a target of this depth",
        "A healthy drafter of another target has an acceptance length of 1.00, and no engine refuses it.",
        "fail drafter drafter.num_target_layers num_target_layers is 36, the target has 64",
        "Use the drafter of this target; correct the field only if it is.",
        "SGLang 0.5.11 warns only; measured on vLLM 0.20.1",
    ),
    "drafter.tokenizer": Entry(
        "Added tokens agree",
        "Equal ids must mean equal tokens.",
        "fail drafter drafter.tokenizer 3 added tokens differ between drafter and target, for "
        "example ids [5]",
        "Use the drafter made for this target.",
        "measured: a foreign drafter, 1.00",
    ),
    "drafter.window": Entry(
        "Sliding windows are there and honoured",
        "vLLM before 0.25 runs sliding layers as full attention: nothing is lost up to the "
        "window's size, beyond it acceptance falls off. From 0.25 on mixed layers need the V2 "
        "runner.",
        "warn drafter drafter.window 4 layers slide over 2048 tokens; vllm 0.20.1 never reads "
        "that and runs them as full attention",
        "Stay below the window, or use vLLM >= 0.25 with the V2 runner or SGLang >= 0.5.11.",
        "vllm#40898, vllm#47914; z-lab/dflash#126; AEON-7/Qwen3.6-27B-AEON-Ultimate-Uncensored-DFlash#6",
    ),
    "drafter.block_size": Entry(
        "block_size is the trained one",
        "Drafts beyond the trained block are noise. vLLM never reads the field, SGLang drafts by it.",
        "warn drafter drafter.block_size block_size is 8 where 16 was trained; vLLM does not read"
        " it, but you choose k by it",
        "Write the family's block size.",
        "vLLM 0.20.1 and 0.33.0; SGLang 0.5.11 dflash_utils",
    ),
    "drafter.k": Entry(
        "k fits the block",
        "k is the block less the anchor in vLLM and the whole block in SGLang. Beyond it "
        "positions are noise; a healthy drafter with a k that is too small falls below "
        "break-even.",
        "warn drafter drafter.k k 3 uses only part of the trained block of 8",
        "Give the k that the finding names.",
        "measured on vLLM 0.20.1",
    ),
    "drafter.architecture": Entry(
        "architectures and model_type fit the tensors",
        "The engine picks its code by the one, transformers its silent defaults by the other.",
        "fail drafter drafter.architecture architectures is ['Qwen3ForCausalLM'], the tensors are"
        " those of DFlashDraftModel",
        "Write the architecture that the finding names.",
        "vLLM model registry; transformers 5.6.0 AutoConfig",
    ),
    "drafter.norm_eps": Entry(
        "rms_norm_eps is the trained one",
        "It is part of what was trained; published drafters carry their target's.",
        "warn drafter drafter.norm_eps rms_norm_eps is 1e-05, the target has 1e-06",
        "Write the value that the finding names.",
        "sgl-project/SpecForge configs",
    ),
    "drafter.activation": Entry(
        "The activation is the target's",
        "Published drafters take it over.",
        "warn drafter drafter.activation hidden_act is gelu, the target has silu",
        "Write the activation that the drafter was trained with.",
        "sgl-project/SpecForge configs",
    ),
    "drafter.positions": Entry(
        "The drafter covers the positions served",
        "Beyond its rotary table positions are not defined.",
        "warn drafter drafter.positions max_position_embeddings 2048 is less than the 4096 positions served",
        "Write the target's value, or serve less.",
        "transformers 5.6.0; vLLM DFlashQwen3Attention",
    ),
    "drafter.mtp": Entry(
        "Prediction layers are in the checkpoint",
        "Quantised checkpoints are often made without them, or with them left out of the ignore "
        "list. Engines then run on uninitialised memory: acceptance length exactly 1.00.",
        "fail target drafter.mtp none of 1199 tensors belongs to a prediction layer (the config declares 1)",
        "Use a checkpoint that keeps mtp.* tensors and lists them in the quantisation's ignore "
        "list, or switch speculation off.",
        "vllm#35548, vllm#53387, sglang#35797, sglang#23113",
    ),
    "drafter.outlook": Entry(
        "What all faults together are likely to cost",
        "Faults differ by orders of size and hide each other: with mask and rope wrong, correct "
        "ids are worth nothing. So all are told, worst first, with the sizes measured on a small "
        "pair; shapes carry over to large models, numbers do not.",
        "fail drafter drafter.outlook worst first: mask: end-of-text as mask: acceptance length "
        "1.1 instead of 3.99",
        "Mend all of them at once, then measure.",
        "measured on vLLM 0.20.1 and one H200, 2026-11-29",
    ),
    "drafter.siblings": Entry(
        "Published relatives agree",
        "The rule of a family can be read from the configs of its published members: even spacing"
        " of layer ids, one mask token per vocabulary.",
        "unknown drafter drafter.siblings no relative could be read",
        "Check HF_ENDPOINT, HF_TOKEN and the network, or give a folder with their config.json files.",
        "sgl-project/SpecForge configs; dflash 0.1.0 build_target_layer_ids",
    ),
    "drafter.write": Entry(
        "The config was written",
        "Every value carries its origin: weights, target, family, siblings, or 'formula, "
        "unconfirmed'. What nobody confirms is not written: a guessed mask token or RoPE base is "
        "a dead drafter.",
        "fail drafter drafter.write nothing was written: there is a config.json already",
        "Add --force to replace a config (the original is kept), or get what the finding misses.",
        "the incident: a guessed config, acceptance length 1.12",
    ),
    **GPUS,
    **NODE,
    **LOAD,
    **NCCL,
    **FLAGS,
    **SERVE,
    **ANSWERS,
    **READERS,
}
