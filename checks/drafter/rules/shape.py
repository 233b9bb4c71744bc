"""Weights against config and target: are all tensors there, and do the numbers in the config describe
them?"""

from __future__ import annotations

from checks.data.drafter_effects import Effect, effect
from checks.drafter.case import Case
from checks.drafter.rule import Check, Facts, Rule
from checks.drafter.rules.others import sizes_compared
from checks.drafter.weights import missing_tensors, unknown_tensors
from checks.model import Status

SIZES = (
    ("hidden", "hidden_size"),
    ("intermediate", "intermediate_size"),
    ("layers", "num_hidden_layers"),
    ("heads", "num_attention_heads"),
    ("kv_heads", "num_key_value_heads"),
    ("head_dim", "head_dim"),
)
_TORCH = {"bfloat16": "BF16", "float16": "F16", "float32": "F32"}


def incomplete(case: Case) -> Facts | None:
    if not case.is_block or case.shape is None:
        return None
    gone = missing_tensors(case.drafter.tensors, case.config.layers if case.config else None)
    return (
        {"count": len(gone), "names": ", ".join(gone[:4]) + (", ..." if len(gone) > 4 else "")}
        if gone
        else None
    )


def files_absent(case: Case) -> Facts | None:
    return {"files": ", ".join(case.drafter.absent_files[:4])} if case.drafter.absent_files else None


def unknown(case: Case) -> Facts | None:
    if not case.is_block or case.shape is None:
        return None
    names = unknown_tensors(case.drafter.tensors)
    return {"count": len(names), "names": ", ".join(name[:80] for name in names[:4])} if names else None


def odd(case: Case) -> Facts | None:
    if not case.is_block or case.shape is None or not case.shape.odd:
        return None
    return {"odd": "; ".join(case.shape.odd[:3])}


def missing_effect(case: Case) -> Effect | None:
    gone = missing_tensors(case.drafter.tensors, None)
    for words, key in (
        (("fc.weight",), "fc_missing"),
        (("self_attn",), "attention_missing"),
        (("mlp.",), "mlp_missing"),
    ):
        if any(word in name for name in gone for word in words):
            return effect(key)
    return effect("norm_missing" if gone else "attention_missing")


def sizes_differ(case: Case) -> Facts | None:
    config, shape = case.config, case.shape
    if config is None or shape is None or not case.is_block:
        return None
    wrong: list[str] = []
    for name, field in SIZES:
        have, real = getattr(config, name), getattr(shape, name)
        silent = config.silently(field) if have is None else None
        if have is None and field == "head_dim" and silent is None and config.hidden and config.heads:
            silent = config.hidden // config.heads
        if real is None or (have is None and silent is None):
            continue
        if (have if have is not None else silent) != real:
            said = have if have is not None else f"absent, so {silent}"
            wrong.append(f"{field} {said}, weights {real}")
    if config.attention_bias is not None and config.attention_bias != shape.bias:
        wrong.append(
            f"attention_bias {str(config.attention_bias).lower()}, weights {str(shape.bias).lower()}"
        )
    return {"wrong": "; ".join(wrong)} if wrong else None


def width_differs(case: Case) -> Facts | None:
    shape, width = case.shape, case.goal.hidden
    if shape is None or not case.is_block or width is None or shape.hidden is None:
        return None
    fits = shape.fc_in is None or shape.fc_in % width == 0
    own_table = shape.vocab is not None
    if fits and (shape.hidden == width or own_table):
        return None
    return {"mine": shape.hidden, "fc": shape.fc_in, "width": width}


def target_hidden_differs(case: Case) -> Facts | None:
    have, want = case.config.target_hidden if case.config else None, case.goal.hidden
    return None if have is None or want is None or have == want else {"have": have, "want": want}


def mixed(case: Case) -> Facts | None:
    kinds = {
        k: n for k, n in (case.shape.dtypes if case.shape else {}).items() if k in {"BF16", "F16", "F32"}
    }
    if not case.is_block or not {"BF16", "F16"} <= kinds.keys():
        return None
    return {"kinds": ", ".join(f"{n} of {k}" for k, n in kinds.items())}


def dtype_differs(case: Case) -> Facts | None:
    said = case.config.dtype if case.config else None
    real = case.shape.dtype if case.shape else None
    if said is None or real is None or not case.is_block:
        return None
    wanted = _TORCH.get(said.removeprefix("torch."))
    return None if wanted == real else {"said": said, "real": real}


def _skips(case: Case) -> str | None:
    return None if case.is_block else f"tensors of {case.kind_name} are not judged by name"


def _not_part(case: Case) -> str | None:
    """Prediction layers have their own check; what nobody knows is told by ``drafter.engine``."""
    return f"tensors of {case.kind_name} are not judged here" if case.kind in {"mtp", "unknown"} else None


def _geometry_skips(case: Case) -> str | None:
    if case.config is None:
        return "no config.json"
    if case.is_block or sizes_compared(case):
        return None
    return f"sizes of {case.kind_name} of type {case.config.model_type} are not compared"


def _width_skips(case: Case) -> str | None:
    return None if case.is_block or case.kind == "eagle3" else f"{case.kind_name} is not judged by its fc"


def _no_weights(case: Case) -> str | None:
    if case.shape is not None and (case.shape.layers or case.kind == "draft_model"):
        return None
    if case.drafter.config is not None and case.drafter.config.fmt == "gguf":
        return "a GGUF file: its tensors are not read, only its metadata"
    return (
        "no readable .safetensors file with layers is in the folder; fetch the weights (only "
        "headers are read)"
    )


CHECKS = (
    Check(
        "drafter.tensors",
        "Missing tensors are not noticed at load: DFlash's loader returns nothing to compare, and "
        "zeros or noise take their place.",
        lambda case: (
            f"{len(case.drafter.tensors)} tensors, all that {case.shape.layers if case.shape else 0} "
            "layers need"
            if case.shape and case.shape.layers
            else f"{len(case.drafter.tensors)} tensors, none of which is known to be missing"
        ),
        skips=_not_part,
        blind=_no_weights,
        value=lambda case: len(case.drafter.tensors),
    ),
    Check(
        "drafter.geometry",
        "Sizes in the config must be those of the tensors; combinations that keep the widths load "
        "and compute nonsense.",
        lambda case: "sizes in the config are those of the tensors",
        skips=_geometry_skips,
        blind=_no_weights,
    ),
    Check(
        "drafter.target_width",
        "fc takes hidden states of the target, so its width is a multiple of the target's.",
        lambda case: f"fc takes {case.captured_count} hidden states of width {case.goal.hidden}",
        skips=_width_skips,
        blind=lambda case: (
            _no_weights(case) or (None if case.goal.hidden else "the target's config gives no hidden_size")
        ),
        value=lambda case: case.shape.fc_in if case.shape else None,
        limit=lambda case: case.goal.hidden,
    ),
    Check(
        "drafter.dtype",
        "A wrong dtype rounds the weights on loading, or costs memory.",
        lambda case: f"weights are {case.shape.dtype if case.shape else '?'}",
        skips=_skips,
        blind=_no_weights,
        value=lambda case: case.config.dtype if case.config else None,
        limit=lambda case: case.shape.dtype if case.shape else None,
    ),
)

RULES = (
    Rule(
        "tensors_missing",
        "drafter.tensors",
        Status.FAIL,
        incomplete,
        "{count} tensors are missing: {names}",
        "an incomplete export or download; no engine warns",
        "get the complete weights",
        "vLLM 0.20.1: load_weights returns None, so nothing is checked; measured",
        missing_effect,
    ),
    Rule(
        "tensors_files",
        "drafter.tensors",
        Status.FAIL,
        files_absent,
        "the index names files that are not there: {files}",
        "the download is not complete",
        "download the rest",
        "safetensors index format",
    ),
    Rule(
        "tensors_unknown",
        "drafter.tensors",
        Status.FAIL,
        unknown,
        "{count} tensors have names that no DFlash loader knows: {names}",
        "another architecture, or names of a training framework; vLLM refuses unknown names",
        "export the weights under the published names, or use the engine that this architecture needs",
        "vLLM 0.20.1 and 0.33.0 qwen3_dflash.py",
    ),
    Rule(
        "tensors_odd",
        "drafter.tensors",
        Status.FAIL,
        odd,
        "layers differ in shape: {odd}",
        "layers of two checkpoints are mixed",
        "get the weights again from one revision",
        "vLLM qwen3_dflash.py asserts equal layers",
        "layers_swapped",
    ),
    Rule(
        "geometry_differs",
        "drafter.geometry",
        Status.FAIL,
        sizes_differ,
        "the config does not describe the weights: {wrong}",
        "fields were guessed, left out (silent defaults of transformers) or copied from another drafter",
        "take them from the weights (--write does it)",
        "vLLM fails loudly on widths, not on head counts that keep the width",
    ),
    Rule(
        "width_differs",
        "drafter.target_width",
        Status.FAIL,
        width_differs,
        "the drafter is {mine} wide and its fc takes {fc}; the target's hidden states are {width} wide",
        "the drafter belongs to another target",
        "use the drafter made for this target",
        "vLLM: mat1 and mat2 shapes cannot be multiplied",
        "wrong_target",
    ),
    Rule(
        "target_hidden",
        "drafter.target_width",
        Status.FAIL,
        target_hidden_differs,
        "target_hidden_size is {have}, the target's hidden_size {want}",
        "the config was copied from the drafter of another target",
        "write target_hidden_size {want}",
        "vLLM qwen3_dflash.py _get_dflash_fc_input_size",
        "ids_count",
    ),
    Rule(
        "dtype_mixed",
        "drafter.dtype",
        Status.WARN,
        mixed,
        "the weights mix bfloat16 and float16 ({kinds})",
        "tensors of two exports are mixed",
        "get the weights again from one revision",
        "ablation of mixed-up layers, 2026-11-29",
    ),
    Rule(
        "dtype_differs",
        "drafter.dtype",
        Status.WARN,
        dtype_differs,
        "the config says {said}, the weights are {real}",
        "the engine converts on loading; float16 cannot hold bfloat16's range",
        "write the dtype of the weights",
        "vllm#40334: DFlash needs --dtype bfloat16 on Ampere",
    ),
)
