"""Layer ids: are they where this engine looks, as many as fc wants, in order and in range? Pure."""

from __future__ import annotations

from itertools import pairwise

from checks.data.id_conventions import MEANING
from checks.drafter.case import Case
from checks.drafter.rule import Check, Facts, Rule
from checks.model import Status


def no_ids(case: Case) -> str | None:
    """Why there is no list of ids to judge; EAGLE-3 drafters may have one too."""
    if not case.is_block and case.kind != "eagle3":
        return f"{case.kind_name} is not judged by DFlash layer ids"
    if case.config is None:
        return "no config.json"
    return None if case.written_ids else "no ids that this engine reads"


def missing(case: Case) -> Facts | None:
    if case.config is None or case.config.ids:
        return None
    does = case.engine.ability("ids_missing")
    return {"does": does.source if does else "what this engine then does is not known", "engine": case.engine}


def missing_is_fatal(case: Case) -> Facts | None:
    return missing(case) if not _formula_is_right(case) else None


def missing_is_lucky(case: Case) -> Facts | None:
    return missing(case) if _formula_is_right(case) else None


def _formula_is_right(case: Case) -> bool:
    from checks.drafter.expected import spaced_ids

    ids, count, layers = case.expected.ids, case.captured_count, case.goal.layers
    if not case.engine.does("ids_missing", "formula") or ids is None or count is None or layers is None:
        return False
    return bool(ids.value == spaced_ids(layers, count))


def elsewhere(case: Case) -> Facts | None:
    if case.config is None or not case.config.ids or case.written_ids:
        return None
    if not case.engine.readings:
        return None
    return {
        "there": ", ".join(case.config.ids),
        "engine": case.engine,
        "looks": " or ".join(dict.fromkeys(row.field for row in case.engine.readings)),
    }


def wrong_count(case: Case) -> Facts | None:
    layers, wanted = case.captured_layers, case.captured_count
    if layers is None or wanted is None or len(layers) == wanted:
        return None
    return {"have": len(layers), "wanted": wanted, "width": case.shape.fc_in if case.shape else None}


def twice(case: Case) -> Facts | None:
    layers = case.written_ids[1] if case.written_ids else ()
    double = sorted({number for number in layers if layers.count(number) > 1})
    return {"double": double} if double else None


def not_rising(case: Case) -> Facts | None:
    layers = case.written_ids[1] if case.written_ids else ()
    if all(a <= b for a, b in pairwise(layers)):
        return None
    return {"ids": list(layers), "engine": case.engine}


def not_rising_sorted(case: Case) -> Facts | None:
    return not_rising(case) if case.engine.does("order", "sorted") else None


def not_rising_honoured(case: Case) -> Facts | None:
    return None if case.engine.does("order", "sorted") else not_rising(case)


def out_of_range(case: Case) -> Facts | None:
    """Layers that the file means and the target does not have; -1 (the embeddings) only where it can be meant."""
    total = case.goal.layers
    if total is None or case.written_ids is None:
        return None
    field, numbers = case.written_ids
    lowest = 0 if MEANING[field] == 0 else -1
    pairs = zip(numbers, case.meant_layers or (), strict=True)
    bad = sorted({number for number, meant in pairs if not lowest <= meant < total})
    return {"bad": bad, "last": total - 1, "total": total, "field": field} if bad else None


def written_value(case: Case) -> object:
    """The ids as the file has them, for a finding's value."""
    return list(case.written_ids[1]) if case.written_ids else None


CHECKS = (
    Check(
        "drafter.ids_read",
        "Layer ids must stand in a field that this engine reads; otherwise it falls back to ids of its own.",
        lambda case: (
            f"ids are in {case.written_ids[0] if case.written_ids else '?'}, which {case.engine} reads"
        ),
        skips=lambda case: no_ids(case) if not case.is_block or case.config is None else None,
        blind=lambda case: (
            None if case.engine.readings else f"where {case.engine} reads layer ids is not known"
        ),
    ),
    Check(
        "drafter.ids_count",
        "The weights fix how many target layers are captured: the width of fc over the target's hidden size.",
        lambda case: f"{case.captured_count} ids, as many as fc takes",
        skips=no_ids,
        blind=lambda case: (
            None if case.captured_count else "fc's width or the target's hidden size is not known"
        ),
        value=lambda case: len(case.written_ids[1]) if case.written_ids else None,
        limit=lambda case: case.captured_count,
    ),
    Check(
        "drafter.ids_order",
        "The reference concatenates layers in the order of the list; some engines sort.",
        lambda case: "ids rise strictly",
        skips=no_ids,
        value=written_value,
    ),
    Check(
        "drafter.ids_range",
        "An id beyond the target's last layer captures nothing, and the engine dies at the first request.",
        lambda case: f"all ids lie within the target's {case.goal.layers} layers",
        skips=no_ids,
        blind=lambda case: None if case.goal.layers else "the target's config gives no number of layers",
        value=written_value,
        limit=lambda case: case.goal.layers,
    ),
)

RULES = (
    Rule(
        "ids_missing",
        "drafter.ids_read",
        Status.FAIL,
        missing_is_fatal,
        "the config has no layer ids",
        "{does}",
        "write the trained ids into dflash_config.target_layer_ids (--write makes the file)",
        "vLLM 0.20.1 measured; SGLang 0.5.11 code",
        "ids_count",
    ),
    Rule(
        "ids_missing_lucky",
        "drafter.ids_read",
        Status.WARN,
        missing_is_lucky,
        "the config has no layer ids; {engine} takes the formula's, which are the right ones here by luck",
        "{does}",
        "write them down: another engine does something else",
        "SGLang 0.5.11 and 0.5.23 dflash_utils",
    ),
    Rule(
        "ids_elsewhere",
        "drafter.ids_read",
        Status.FAIL,
        elsewhere,
        "the ids stand in {there}; {engine} looks in {looks} and does not see them",
        "the file was written for another engine or format",
        "let --write make the file for this engine",
        "fields read by each engine: checks/data/id_conventions.py",
        "ids_count",
    ),
    Rule(
        "ids_wrong_count",
        "drafter.ids_count",
        Status.FAIL,
        wrong_count,
        "{have} ids, but fc.weight is {width} wide and takes {wanted} layers",
        "the list was made for another number of captured layers",
        "list exactly {wanted} ids",
        "measured on vLLM 0.20.1: dies at the first request",
        "ids_count",
    ),
    Rule(
        "ids_twice",
        "drafter.ids_count",
        Status.FAIL,
        twice,
        "layer {double} is listed twice",
        "an engine captures a layer once, so fc gets too few",
        "list every layer once",
        "measured on vLLM 0.20.1: dies at the first request",
        "ids_count",
    ),
    Rule(
        "ids_not_rising_sorted",
        "drafter.ids_order",
        Status.WARN,
        not_rising_sorted,
        "ids {ids} do not rise; {engine} captures in rising order whatever the list says, so "
        "nothing is lost here",
        "the list was reordered; an engine that honours the order would feed fc the wrong columns",
        "write the ids in rising order",
        "measured on vLLM 0.20.1: counters identical to the rising list",
    ),
    Rule(
        "ids_not_rising_honoured",
        "drafter.ids_order",
        Status.FAIL,
        not_rising_honoured,
        "ids {ids} do not rise, and {engine} is not known to sort them",
        "fc was trained on the layers in rising order",
        "write the ids in rising order",
        "reference loop, 2026-11-29",
        "ids_reversed_honoured",
    ),
    Rule(
        "ids_out_of_range",
        "drafter.ids_range",
        Status.FAIL,
        out_of_range,
        "ids {bad} in {field} point outside the target, whose layers are 0 to {last}",
        "ids counted from 1 (GGUF, speculators) were put where ids from 0 belong, or the drafter "
        "is of a deeper target",
        "use the ids for a target of {total} layers",
        "charlie12345/ROCmFPX#44; vllm-project/speculators#705; measured on vLLM 0.20.1",
        "ids_count",
    ),
)
