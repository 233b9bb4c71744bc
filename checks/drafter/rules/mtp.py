"""Multi-token prediction: the drafter is part of the target's checkpoint and is easily lost in quantising."""

from __future__ import annotations

import re

from checks.drafter.case import Case
from checks.drafter.rule import Check, Facts, Rule
from checks.drafter.weights import PACKED
from checks.model import Status

_MTP = re.compile(r"(^|\.)(mtp|nextn)\.|\.(eh_proj|enorm|hnorm)\.|shared_head\.")
_LAYER = re.compile(r"(?:^|\.)layers\.(\d{1,4})\.")
_LINEAR = re.compile(r"(proj|fc)\.(weight|weight_packed|qweight)$")
_PACKED_TYPES = ("U8", "I8", "I32", "U32", "F8_E4M3", "F8_E5M2", "F4", "F8_E4M3FNUZ", "F8_E5M2FNUZ")


def prediction_tensors(case: Case) -> dict[str, str]:
    """Names and types of tensors that belong to prediction layers, by name or by a layer number beyond the
    target's."""
    total = case.goal.layers
    found: dict[str, str] = {}
    for name, tensor in case.drafter.tensors.items():
        match = _LAYER.search(name)
        beyond = match is not None and total is not None and int(match[1]) >= total and "visual" not in name
        if _MTP.search(name) or beyond:
            found[name] = tensor.dtype
    return found


def lost(case: Case) -> Facts | None:
    if case.kind != "mtp" or not case.drafter.tensors or prediction_tensors(case):
        return None
    return {"declared": case.goal.mtp_layers, "count": len(case.drafter.tensors)}


def undeclared(case: Case) -> Facts | None:
    if case.kind != "mtp" or case.goal.mtp_layers or not prediction_tensors(case):
        return None
    return {"count": len(prediction_tensors(case))}


def fewer(case: Case) -> Facts | None:
    declared = case.goal.mtp_layers
    if case.kind != "mtp" or not declared:
        return None
    numbers = {match[1] for name in prediction_tensors(case) if (match := _LAYER.search(name))}
    return {"have": len(numbers), "declared": declared} if 0 < len(numbers) < declared else None


def _quantised(case: Case) -> tuple[list[str], list[str], tuple[str, ...]] | None:
    """Prediction linears kept in full precision, those quantised, and the ignore patterns; None without
    quantisation."""
    settings = case.goal.quantization
    if case.kind != "mtp" or settings is None:
        return None
    ignored = (
        settings.get("ignore") or settings.get("modules_to_not_convert") or settings.get("exclude") or []
    )
    patterns = tuple(item for item in ignored if isinstance(item, str)) if isinstance(ignored, list) else ()
    linears = {name: kind for name, kind in prediction_tensors(case).items() if _LINEAR.search(name)}
    packed = [name for name, kind in linears.items() if kind in _PACKED_TYPES or PACKED.search(name)]
    return [name for name in linears if name not in packed], packed, patterns


def _is_ignored(name: str, patterns: tuple[str, ...]) -> bool:
    module = name.rpartition(".")[0]
    return any(_covers(pattern, module) for pattern in patterns)


def _covers(pattern: str, module: str) -> bool:
    """Whether an entry of the ignore list covers a module.

    A regular expression from a file is run only when it cannot take long (no groups, three repetitions at
    most); any other counts as covering, which at worst misses a fault and never invents one.
    """
    if not pattern.startswith("re:"):
        return module == pattern or module.startswith(pattern + ".") or module.endswith("." + pattern)
    text = pattern[3:]
    if len(text) > 200 or "(" in text or "{" in text or text.count("*") + text.count("+") > 3:
        return True
    try:
        return re.match(text, module) is not None
    except (re.error, RecursionError):
        return True


def unlisted(case: Case) -> Facts | None:
    quantised = _quantised(case)
    if quantised is None:
        return None
    full, _, patterns = quantised
    bad = [name for name in full if not _is_ignored(name, patterns)]
    return {"names": ", ".join(bad[:3]), "count": len(bad)} if bad else None


def listed_but_packed(case: Case) -> Facts | None:
    quantised = _quantised(case)
    if quantised is None:
        return None
    bad = [name for name in quantised[1] if _is_ignored(name, quantised[2])]
    return {"names": ", ".join(bad[:3]), "count": len(bad)} if bad else None


def dropped_by_sglang(case: Case) -> Facts | None:
    quantised = _quantised(case)
    method = str((case.goal.quantization or {}).get("quant_method", ""))
    if quantised is None or case.engine.name != "sglang" or method not in {"compressed-tensors", "quark"}:
        return None
    kept = [name for name in quantised[0] if _is_ignored(name, quantised[2])]
    return {"count": len(kept), "method": method} if kept else None


def absent_files(case: Case) -> Facts | None:
    if case.kind != "mtp" or not case.drafter.absent_files:
        return None
    return {"files": ", ".join(case.drafter.absent_files[:3])}


CHECKS = (
    Check(
        "drafter.mtp",
        "Without its tensors a prediction layer runs on uninitialised memory: acceptance length "
        "exactly 1.00.",
        lambda case: (
            f"{len(prediction_tensors(case))} prediction tensors are there and match the quantisation"
        ),
        subject="target",
        skips=lambda case: (
            None if case.kind == "mtp" else f"the drafter is {case.kind_name}, no part of the target"
        ),
        blind=lambda case: (
            None if case.drafter.tensors else "no .safetensors file is in the folder; fetch the weights"
        ),
        value=lambda case: len(prediction_tensors(case)),
    ),
)

RULES = (
    Rule(
        "mtp_lost",
        "drafter.mtp",
        Status.FAIL,
        lost,
        "none of {count} tensors belongs to a prediction layer (the config declares {declared})",
        "the quantised checkpoint was made without them; engines run on uninitialised memory",
        "use a checkpoint that keeps mtp.* (or nextn) tensors, or switch speculation off",
        "vllm#35548",
        "mtp_lost",
    ),
    Rule(
        "mtp_undeclared",
        "drafter.mtp",
        Status.WARN,
        undeclared,
        "{count} prediction tensors are there, but the config declares no prediction layers",
        "mtp_num_hidden_layers (or num_nextn_predict_layers) was lost",
        "take the field from the original config",
        "vLLM: n_predict comes from mtp_num_hidden_layers",
    ),
    Rule(
        "mtp_fewer",
        "drafter.mtp",
        Status.FAIL,
        fewer,
        "the config declares {declared} prediction layers, the weights hold {have}",
        "the checkpoint was cut",
        "use a complete checkpoint",
        "vllm#35548",
        "mtp_lost",
    ),
    Rule(
        "mtp_unlisted",
        "drafter.mtp",
        Status.FAIL,
        unlisted,
        "{count} prediction layers are in full precision but not in the quantisation's ignore list: {names}",
        "the engine then looks for packed weights that are not there",
        "add the mtp modules to quantization_config.ignore",
        "vllm#53387",
    ),
    Rule(
        "mtp_listed_packed",
        "drafter.mtp",
        Status.FAIL,
        listed_but_packed,
        "{count} prediction layers are quantised although the ignore list excludes them: {names}",
        "the engine then reads packed numbers as plain ones",
        "remove the mtp modules from quantization_config.ignore",
        "sglang#23113",
        "mtp_lost",
    ),
    Rule(
        "mtp_dropped",
        "drafter.mtp",
        Status.WARN,
        dropped_by_sglang,
        "{count} prediction layers are in the ignore list of {method}, which SGLang dropped on loading",
        "acceptance length was exactly 1.000 until sglang#36158",
        "after the start look for an acceptance length of exactly 1.00",
        "sglang#35797; sglang#23113",
        "mtp_lost",
    ),
    Rule(
        "mtp_files",
        "drafter.mtp",
        Status.FAIL,
        absent_files,
        "the index names files that are not there: {files}",
        "the download is not complete",
        "download the rest",
        "safetensors index format",
    ),
)
