"""Sliding-window layers: what the file says, what was trained, and whether this engine honours it at all."""

from __future__ import annotations

from checks.drafter.case import Case
from checks.drafter.rule import Check, Facts, Rule
from checks.model import Status

KNOWN_TYPES = ("full_attention", "sliding_attention")


def _sliding(case: Case) -> int:
    config = case.config
    if config is None:
        return 0
    if config.sliding_layers == 0 and config.swa_window is not None:
        return config.layers or 0
    return config.sliding_layers


def _declared(case: Case) -> int | None:
    return (case.config.swa_window or case.config.window) if case.config else None


def ignored(case: Case) -> Facts | None:
    """The file has sliding layers, this engine runs them as full attention, and contexts may stay below
    the window."""
    facts = _ignored(case)
    return None if facts is None or _beyond(case) else facts


def ignored_beyond(case: Case) -> Facts | None:
    return _ignored(case) if _beyond(case) else None


def _beyond(case: Case) -> bool:
    window = _declared(case)
    return case.context is not None and window is not None and case.context > window


def _ignored(case: Case) -> Facts | None:
    if not _sliding(case) or not case.engine.does("window", "ignored"):
        return None
    return {
        "n": _sliding(case),
        "engine": case.engine,
        "window": _declared(case),
        "context": case.context,
        "source": case.engine.ability("window").source,  # type: ignore[union-attr]
    }


def refused(case: Case) -> Facts | None:
    config = case.config
    if config is None or not case.engine.does("window", "uniform"):
        return None
    if not 0 < config.sliding_layers < len(config.layer_types or ()):
        return None
    return {"engine": case.engine}


def dropped(case: Case) -> Facts | None:
    config = case.config
    if (
        config is None
        or not config.sliding_layers
        or config.swa_window is not None
        or config.use_window is True
    ):
        return None
    return {"said": "absent" if config.use_window is None else "false", "window": config.window}


def dropped_matters(case: Case) -> Facts | None:
    return None if case.engine.does("window", "ignored") else dropped(case)


def dropped_unread(case: Case) -> Facts | None:
    return dropped(case) if case.engine.does("window", "ignored") else None


def no_size(case: Case) -> Facts | None:
    if not _sliding(case) or _declared(case) is not None:
        return None
    return {"n": _sliding(case)}


def no_types(case: Case) -> Facts | None:
    config = case.config
    if (
        config is None
        or config.use_window is not True
        or config.layer_types is not None
        or config.swa_window is not None
    ):
        return None
    return {"window": config.window}


def types_wrong(case: Case) -> Facts | None:
    config = case.config
    if config is None or config.layer_types is None:
        return None
    reasons = []
    count = config.layers or (case.shape.layers if case.shape else None)
    if count and len(config.layer_types) != count:
        reasons.append(f"{len(config.layer_types)} entries for {count} layers")
    strange = sorted(set(config.layer_types) - set(KNOWN_TYPES))
    if strange:
        reasons.append("unknown types " + ", ".join(name[:40] for name in strange[:3]))
    return {"reasons": " and ".join(reasons)} if reasons else None


def off_family(case: Case) -> Facts | None:
    config, right, window = case.config, case.expected.layer_types, case.expected.window
    if config is None:
        return None
    reasons = []
    trained = sum(kind == "sliding_attention" for kind in right.value) if right else None
    if trained is not None and right is not None:
        mine = _sliding(case)
        if mine != trained or (config.layer_types is not None and config.layer_types != right.value):
            reasons.append(f"{mine} of {len(right.value)} layers slide here, {trained} in {right.source}")
    if window is not None and (_sliding(case) or trained) and _declared(case) not in (None, window.value):
        reasons.append(f"the window is {_declared(case)} here, {window.value} in {window.source}")
    honoured = not case.engine.does("window", "ignored")
    if not reasons:
        return None
    tail = "" if honoured else f" ({case.engine} reads neither, so nothing changes on it)"
    return {"reasons": " and ".join(reasons), "tail": tail}


def _skips(case: Case) -> str | None:
    if not case.is_block:
        return f"{case.kind_name} is not judged by its windows"
    return "no config.json" if case.config is None else None


def _blind(case: Case) -> str | None:
    if _sliding(case) and case.engine.ability("window") is None:
        return f"the drafter has sliding layers, and what {case.engine} does with them is not known"
    return None


def _passes(case: Case) -> str:
    if _sliding(case):
        return f"{_sliding(case)} sliding layers of {_declared(case)} tokens, honoured by {case.engine}"
    return "all layers are full attention" + (
        ", as trained" if case.expected.layer_types else ", and nobody says otherwise"
    )


CHECKS = (
    Check(
        "drafter.window",
        "Layers trained with a window lose acceptance beyond it when they run as full attention.",
        _passes,
        skips=_skips,
        blind=_blind,
        value=_declared,
        limit=lambda case: case.expected.window.value if case.expected.window else None,
    ),
)

RULES = (
    Rule(
        "window_ignored",
        "drafter.window",
        Status.WARN,
        ignored,
        "{n} layers slide over {window} tokens; {engine} never reads that and runs them as full attention",
        "{source}. Up to {window} tokens of context nothing is lost; beyond it acceptance falls off",
        "stay below {window} tokens, or use vLLM >= 0.25 with VLLM_USE_V2_MODEL_RUNNER=1 or "
        "SGLang >= 0.5.11 (--context says what you serve)",
        "vllm#40898, closed unmerged",
        "window",
    ),
    Rule(
        "window_ignored_beyond",
        "drafter.window",
        Status.FAIL,
        ignored_beyond,
        "{n} layers slide over {window} tokens; {engine} runs them as full attention, and "
        "{context} tokens are served",
        "{source}. Beyond {window} tokens acceptance falls off",
        "use vLLM >= 0.25 with VLLM_USE_V2_MODEL_RUNNER=1 or SGLang >= 0.5.11, or serve at most "
        "{window} tokens",
        "vllm#40898, closed unmerged",
        "window",
    ),
    Rule(
        "window_refused",
        "drafter.window",
        Status.FAIL,
        refused,
        "the drafter mixes sliding and full layers; {engine} refuses that at start (NotImplementedError)",
        "mixed layers need several groups of KV cache, which only the V2 runner has",
        "start with VLLM_USE_V2_MODEL_RUNNER=1 (and say --runner v2 here)",
        "vllm#47914; vllm-ascend#15650",
    ),
    Rule(
        "window_dropped",
        "drafter.window",
        Status.FAIL,
        dropped_matters,
        "layer_types has sliding layers but use_sliding_window is {said}, so transformers sets "
        "sliding_window {window} to None",
        "the silent default of use_sliding_window is false; the engine then finds no window size",
        'write "use_sliding_window": true',
        "transformers 5.6.0 configuration_qwen3.py",
    ),
    Rule(
        "window_dropped_unread",
        "drafter.window",
        Status.WARN,
        dropped_unread,
        "layer_types has sliding layers but use_sliding_window is {said}, so transformers sets "
        "sliding_window {window} to None",
        "this engine does not read it; a newer one refuses the file",
        'write "use_sliding_window": true',
        "transformers 5.6.0 configuration_qwen3.py",
    ),
    Rule(
        "window_no_size",
        "drafter.window",
        Status.FAIL,
        no_size,
        "{n} layers slide, but sliding_window gives no size",
        "the field was left out",
        "write the window used in training",
        "vLLM >= 0.25: ValueError",
    ),
    Rule(
        "window_no_types",
        "drafter.window",
        Status.WARN,
        no_types,
        "use_sliding_window is true, but without layer_types every layer is full attention "
        "(max_window_layers defaults to 28)",
        "transformers lets layers slide only from number max_window_layers on",
        "write layer_types, one entry per layer",
        "transformers 5.6.0 configuration_qwen3.py",
    ),
    Rule(
        "window_types_wrong",
        "drafter.window",
        Status.FAIL,
        types_wrong,
        "layer_types is wrong: {reasons}",
        "the list was made for another drafter",
        "write one of full_attention and sliding_attention per layer",
        "transformers 5.6.0 layer_types validation",
    ),
    Rule(
        "window_off_family",
        "drafter.window",
        Status.WARN,
        off_family,
        "{reasons}{tail}",
        "layers were trained with a window; forcing full attention lowers acceptance. An early "
        "revision may differ: compare revisions",
        "take layer_types, sliding_window and use_sliding_window from the publisher's config "
        "(--write does it)",
        "z-lab/dflash#126",
        "window",
    ),
)
