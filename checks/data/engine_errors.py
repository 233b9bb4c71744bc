"""Lines by which an engine says why it died or refused to start. One row per text, with what it means.

``cause`` is an id of :mod:`checks.data.causes`; a row without one is evidence of death only, because the same
text has several causes (a device-side assert is one).
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class ErrorRow:
    """``pattern`` is searched in one log line; ``meaning`` completes "this means that ..."."""

    id: str
    pattern: re.Pattern[str]
    cause: str | None
    meaning: str
    source: str


ERRORS: tuple[ErrorRow, ...] = (
    ErrorRow(
        "mask_missing",
        re.compile(r"For parallel drafting, the draft model config must have"),
        "mask_token",
        "the drafter's config names no mask token, and the engine will not invent one",
        "vLLM 0.20.1 on an H200, recorded",
    ),
    ErrorRow(
        "fc_width",
        re.compile(
            r"mat1 and mat2 shapes cannot be multiplied \((\d{1,9})x(\d{1,9}) and (\d{1,9})x(\d{1,9})\)"
        ),
        "layer_count",
        "the captured layers do not add up to the width of the drafter's fc: an id beyond the last "
        "layer, a duplicate, or no ids at all",
        "vLLM 0.20.1 on an H200, recorded",
    ),
    ErrorRow(
        "vocab_width",
        re.compile(
            r"shape mismatch: value tensor of shape \[(\d{1,9}), (\d{1,9})\] cannot be broadcast to "
            r"indexing result of shape \[(\d{1,9}), (\d{1,9})\]"
        ),
        "vocab",
        "drafter and target disagree about the vocabulary",
        "vLLM 0.20.1 on an H200, recorded",
    ),
    ErrorRow(
        "aux_count",
        re.compile(
            r"DFlash drafter expects (\d{1,9}) concatenated aux hidden features but received (\d{1,9})"
        ),
        "layer_count",
        "the target delivers another number of layers than the drafter was trained on",
        "vLLM 0.33.0 source",
    ),
    ErrorRow(
        "layer_range",
        re.compile(r"target_layer_ids?.{0,80}(out of range|must be (in|less|<))", re.I),
        "layer_count",
        "a layer id lies beyond the target's last layer",
        "SGLang 0.5.11 source; charlie12345/ROCmFPX#44",
    ),
    ErrorRow(
        "mixed_attention",
        re.compile(r"DFlash drafters with mixed sliding/full attention require the V2 model runner"),
        "window",
        "this drafter mixes windowed and full layers, which the V1 runner cannot serve",
        "vLLM 0.33.0 source; vllm-ascend#15650",
    ),
    ErrorRow(
        "missing_module",
        re.compile(r"no module(?: or parameter)? named ['\"]?([\w.]+)['\"]?", re.I),
        "tensors",
        "the checkpoint holds a tensor for which this engine has no module: wrong runner, or a quantisation "
        "that skipped it",
        "vllm#53387; noonghunna/club-3090#1064",
    ),
    ErrorRow(
        "mask_range",
        re.compile(r"mask_token_id.{0,60}(vocab|out of range)", re.I),
        "mask_token",
        "the mask token lies outside the vocabulary",
        "SGLang 0.5.11 source",
    ),
    ErrorRow(
        "device_assert",
        re.compile(r"device-side assert triggered"),
        None,
        "a kernel met an index out of bounds",
        "vLLM 0.20.1 on an H200, recorded; vllm#50707",
    ),
    ErrorRow(
        "out_of_memory",
        re.compile(r"CUDA out of memory|torch\.OutOfMemoryError|No available memory for the cache blocks"),
        "memory",
        "the GPU has no room for weights, graphs and KV cache together",
        "vLLM and SGLang sources",
    ),
    ErrorRow(
        "engine_dead",
        re.compile(r"EngineDeadError|EngineCore encountered an (issue|unexpected error)"),
        None,
        "the engine process is gone while the front end still answers",
        "vLLM 0.20.1 on an H200, recorded",
    ),
    ErrorRow(
        "start_failed",
        re.compile(r"Engine core initialization failed"),
        None,
        "the engine never started",
        "vLLM 0.20.1 on an H200, recorded",
    ),
    ErrorRow(
        "scheduler_died",
        re.compile(r"Scheduler hit an exception"),
        None,
        "SGLang's scheduler process is gone",
        "SGLang 0.5.11 source",
    ),
)
