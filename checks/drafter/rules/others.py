"""EAGLE drafters and ordinary draft models: are all tensors there, do config and target fit them? They belong to the
checks of ``shape`` and ``vocabulary``."""

from __future__ import annotations

from checks.drafter.case import EAGLES, Case
from checks.drafter.others import (
    UNIFORM,
    is_adapter,
    missing_of_eagle,
    missing_of_model,
    sizes,
    tables,
)
from checks.drafter.rule import Facts, Rule
from checks.drafter.weights import plain_names
from checks.model import Status

CAPTURED = 3
"""Layers of the target that EAGLE-3 takes where the config names none (vLLM 0.20.1 and 0.33.0,
get_eagle3_default_aux_hidden_state_layers; SGLang set_eagle3_layers_to_capture)."""


def adapter(case: Case) -> Facts | None:
    return {} if is_adapter(case.drafter.tensors) else None


def missing(case: Case) -> Facts | None:
    if not case.drafter.tensors or is_adapter(case.drafter.tensors):
        return None
    if case.kind in EAGLES:
        gone = missing_of_eagle(case.kind, case.drafter.tensors, case.config)
    elif case.kind == "draft_model":
        gone = missing_of_model(case.drafter.tensors, case.config)
    else:
        return None
    more = ", ..." if len(gone) > 4 else ""
    return {"count": len(gone), "names": ", ".join(gone[:4]) + more, "what": case.kind_name} if gone else None


def sizes_compared(case: Case) -> bool:
    """Whether the sizes in the config can be held against the tensors at all."""
    return case.kind in EAGLES or (
        case.kind == "draft_model" and case.config is not None and case.config.model_type in UNIFORM
    )


def sizes_differ(case: Case) -> Facts | None:
    if case.config is None or not sizes_compared(case):
        return None
    wrong = [
        f"{name} {said}, weights {real}" for name, said, real in sizes(case.drafter.tensors, case.config)
    ]
    return {"wrong": "; ".join(wrong)} if wrong else None


def width_differs(case: Case) -> Facts | None:
    """fc takes whole hidden states of the target, and without a token table of its own the target's rows."""
    shape, width = case.shape, case.goal.hidden
    if case.kind != "eagle3" or shape is None or width is None:
        return None
    own = "embed_tokens.weight" in plain_names(case.drafter.tensors)
    fits = shape.fc_in is None or shape.fc_in % width == 0
    if fits and (own or shape.hidden in (None, width)):
        return None
    return {"mine": shape.hidden, "fc": shape.fc_in, "width": width}


def layers_differ(case: Case) -> Facts | None:
    have = case.captured_count
    if case.kind != "eagle3" or case.config is None or case.config.ids or have in (None, CAPTURED):
        return None
    return None if "num_aux_hidden_states" in case.config.present else {"have": have, "usual": CAPTURED}


def tables_differ(case: Case) -> Facts | None:
    if case.kind not in EAGLES:
        return None
    d2t, t2d, head = tables(case.drafter.tensors)
    said, vocab = case.config.draft_vocab if case.config else None, case.goal.vocab
    wrong = []
    if len({rows for rows in (d2t, head, said) if rows is not None}) > 1 and d2t is not None:
        wrong.append(f"d2t has {d2t} rows, lm_head {head}, draft_vocab_size is {said}")
    if t2d is not None and vocab is not None and t2d != vocab:
        wrong.append(f"t2d has {t2d} rows, the target {vocab} tokens")
    return {"wrong": "; ".join(wrong)} if wrong else None


RULES = (
    Rule(
        "tensors_adapter",
        "drafter.tensors",
        Status.FAIL,
        adapter,
        "the file holds an adapter (LoRA), no model",
        "an adapter changes a model that is not in this folder",
        "merge it into its model, or name the folder of the whole drafter",
        "peft: adapter_model.safetensors",
    ),
    Rule(
        "tensors_missing_other",
        "drafter.tensors",
        Status.FAIL,
        missing,
        "{count} tensors are missing that {what} must have: {names}",
        "an incomplete export or download, or the config of another drafter",
        "get the complete weights, and the config that belongs to them",
        "SafeAILab/EAGLE, sgl-project/SpecForge llama3_eagle.py; transformers 5.6.0 modeling_llama.py",
        "attention_missing",
    ),
    Rule(
        "geometry_differs_other",
        "drafter.geometry",
        Status.FAIL,
        sizes_differ,
        "the config does not describe the weights: {wrong}",
        "the config was copied from another drafter",
        "take config and weights of one revision",
        "vLLM: size mismatch at load",
    ),
    Rule(
        "width_differs_eagle",
        "drafter.target_width",
        Status.FAIL,
        width_differs,
        "the drafter is {mine} wide and its fc takes {fc}; the target's hidden states are {width} wide",
        "the drafter belongs to another target",
        "use the drafter made for this target",
        "vLLM llama_eagle3.py: fc takes three hidden states, and the target's embedding is shared",
        "wrong_target",
    ),
    Rule(
        "layers_differ_eagle",
        "drafter.target_width",
        Status.FAIL,
        layers_differ,
        "fc takes {have} hidden states, and the config names no layers: engines then capture {usual}",
        "the list of layers was lost from the config, or this is a drafter of another kind",
        "take the config that belongs to these weights (eagle_aux_hidden_state_layer_ids)",
        "vLLM 0.20.1 get_eagle3_default_aux_hidden_state_layers",
        "ids_count",
    ),
    Rule(
        "vocab_tables",
        "drafter.vocab",
        Status.FAIL,
        tables_differ,
        "{wrong}",
        "the tables that turn drafted ids into the target's belong to another drafter or target",
        "get weights and config of one revision, made for this target",
        "vLLM llama_eagle3.py: draft_id_to_target_id; SpecForge: t2d has the target's vocabulary",
        "wrong_target",
    ),
)
