"""Layer ids: are they where this engine looks, as many as fc wants, in order, in range, counted its way, and the trained ones?"""

from __future__ import annotations

from checks.data.drafter_effects import Effect, effect
from checks.data.id_conventions import MEANING
from checks.drafter.case import FORMULA, Case
from checks.drafter.rule import Check, Facts, Rule
from checks.model import Status


def _no_ids(case: Case) -> str | None:
    if not case.is_block:
        return f"a {case.kind} drafter is not judged by DFlash layer ids"
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
    if all(a <= b for a, b in zip(layers, layers[1:], strict=False)):
        return None
    return {"ids": list(layers), "engine": case.engine}


def not_rising_sorted(case: Case) -> Facts | None:
    return not_rising(case) if case.engine.does("order", "sorted") else None


def not_rising_honoured(case: Case) -> Facts | None:
    return None if case.engine.does("order", "sorted") else not_rising(case)


def out_of_range(case: Case) -> Facts | None:
    total = case.goal.layers
    if total is None or case.written_ids is None:
        return None
    pairs = zip(case.written_ids[1], case.captured_layers or (), case.meant_layers or (), strict=True)
    bad = [number for number, caught, meant in pairs if not (-1 <= caught < total and -1 <= meant < total)]
    if case.written_ids[0] in {"dflash_config.target_layer_ids", "target_layer_ids"}:
        bad += [number for number in case.written_ids[1] if number < 0]
    return (
        {"bad": sorted(set(bad)), "last": total - 1, "total": total, "field": case.written_ids[0]}
        if bad
        else None
    )


def shifted(case: Case) -> Facts | None:
    """The engine counts differently from the file, and nobody has allowed for it."""
    caught, meant = case.captured_layers, case.meant_layers
    if caught is None or meant is None or caught == meant:
        return None
    if case.expected.ids is not None and tuple(sorted(caught)) == case.expected.ids.value:
        return None
    reading = next(
        row for row in case.engine.readings if case.written_ids and row.field == case.written_ids[0]
    )
    return {
        "engine": case.engine,
        "caught": list(caught),
        "meant": list(meant),
        "top": [number + 1 for number in meant],
        "source": reading.source,
        "shift": abs(caught[0] - meant[0]),
    }


def shifted_by_hand(case: Case) -> Facts | None:
    caught, meant, right = case.captured_layers, case.meant_layers, case.expected.ids
    if (
        caught is None
        or meant is None
        or caught == meant
        or right is None
        or tuple(sorted(caught)) != right.value
    ):
        return None
    return {
        "written": list(case.written_ids[1]) if case.written_ids else [],
        "engine": case.engine,
        "right": list(right.value),
    }


def fields_disagree(case: Case) -> Facts | None:
    if case.config is None or case.written_ids is None:
        return None
    said = {name: tuple(n + MEANING[name] for n in numbers) for name, numbers in case.config.ids.items()}
    if len({tuple(sorted(layers)) for layers in said.values()}) < 2:
        return None
    return {
        "said": "; ".join(f"{name} means layers {list(layers)}" for name, layers in said.items()),
        "read": case.written_ids[0],
    }


def fields_disagree_unconfirmed(case: Case) -> Facts | None:
    right = case.expected.ids
    sure = right is not None and right.confirmed
    caught = case.captured_layers
    good = right is not None and caught is not None and tuple(sorted(caught)) == right.value
    return None if sure or good else fields_disagree(case)


def fields_disagree_harmless(case: Case) -> Facts | None:
    return fields_disagree(case) if fields_disagree_unconfirmed(case) is None else None


def _off(case: Case) -> Facts | None:
    right, meant, caught = case.expected.ids, case.meant_layers, case.captured_layers
    if right is None or meant is None or caught is None or len(meant) != len(right.value):
        return None
    if tuple(sorted(meant)) == right.value or tuple(sorted(caught)) == right.value:
        return None
    off = sum(a != b for a, b in zip(sorted(meant), right.value, strict=True))
    return {
        "off": off,
        "of": len(meant),
        "ids": list(meant),
        "right": list(right.value),
        "origin": right.origin,
        "source": right.source,
        "caught": list(caught),
        "far": farthest(case),
        "total": case.goal.layers,
        "engine": case.engine,
        "depth": _depth(case),
    }


def _depth(case: Case) -> str:
    """How the distance compares with the measured pair, where one layer of 12 is 8 % of the depth."""
    far, total = farthest(case), case.goal.layers
    if not far or not total:
        return "The measured pair has 12 layers"
    return f"The measured pair has 12 layers, one is 8 % of its depth; here {far} of {total} are {100 * far / total:.0f} %, so expect less loss"


def off_family(case: Case) -> Facts | None:
    right = case.expected.ids
    return _off(case) if right is not None and right.origin != FORMULA else None


def off_formula(case: Case) -> Facts | None:
    right = case.expected.ids
    return _off(case) if right is not None and right.origin == FORMULA else None


def farthest(case: Case) -> int | None:
    """How many layers the worst captured layer is away from the trained one."""
    right, caught = case.expected.ids, case.captured_layers
    if right is None or caught is None or len(caught) != len(right.value):
        return None
    return max(abs(a - b) for a, b in zip(sorted(caught), right.value, strict=True))


def ids_effect(case: Case) -> Effect | None:
    """The measured row by distance: layers off, or the share of the depth where the target is deeper than the measured one."""
    far, total = farthest(case), case.goal.layers
    if far is None or total is None:
        return effect("ids_two_off")
    share = far / total
    if far <= 1:
        return effect("ids_one_early")
    if far <= 2 or share <= 2 / 12:
        return effect("ids_two_off")
    return effect("ids_spread_wrong") if share <= 0.5 else effect("ids_far")


def _value(case: Case) -> object:
    return list(case.written_ids[1]) if case.written_ids else None


def _family_limit(case: Case) -> object:
    return list(case.expected.ids.value) if case.expected.ids else None


CHECKS = (
    Check(
        "drafter.ids_read",
        "Layer ids must stand in a field that this engine reads; otherwise it falls back to ids of its own.",
        lambda case: (
            f"ids are in {case.written_ids[0] if case.written_ids else '?'}, which {case.engine} reads"
        ),
        skips=lambda case: _no_ids(case) if not case.is_block or case.config is None else None,
        blind=lambda case: (
            None if case.engine.readings else f"where {case.engine} reads layer ids is not known"
        ),
    ),
    Check(
        "drafter.ids_count",
        "The weights fix how many target layers are captured: the width of fc over the target's hidden size.",
        lambda case: f"{case.captured_count} ids, as many as fc takes",
        skips=_no_ids,
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
        skips=_no_ids,
        value=_value,
    ),
    Check(
        "drafter.ids_range",
        "An id beyond the target's last layer captures nothing, and the engine dies at the first request.",
        lambda case: f"all ids lie within the target's {case.goal.layers} layers",
        skips=_no_ids,
        blind=lambda case: None if case.goal.layers else "the target's config gives no number of layers",
        value=_value,
        limit=lambda case: case.goal.layers,
    ),
    Check(
        "drafter.ids_convention",
        "Three ways of counting layers exist; file and engine must use the same one.",
        lambda case: (
            f"{case.engine} captures the outputs of layers {list(case.captured_layers or ())}, as the file means"
        ),
        skips=_no_ids,
        value=lambda case: list(case.captured_layers or ()),
        limit=lambda case: list(case.meant_layers or ()),
    ),
    Check(
        "drafter.ids_family",
        "Only the ids used in training are right, and nothing in the weights tells them.",
        lambda case: (
            f"ids are those of {case.expected.ids.source} ({case.expected.ids.origin})"
            if case.expected.ids
            else ""
        ),
        skips=_no_ids,
        blind=lambda case: (
            None
            if case.expected.ids
            else "neither a published relative nor a rule says which ids are right; try --siblings"
        ),
        value=_value,
        limit=_family_limit,
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
        "ids {ids} do not rise; {engine} captures in rising order whatever the list says, so nothing is lost here",
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
        "ids counted from 1 (GGUF, speculators) were put where ids from 0 belong, or the drafter is of a deeper target",
        "use the ids for a target of {total} layers",
        "charlie12345/ROCmFPX#44; vllm-project/speculators#705; measured on vLLM 0.20.1",
        "ids_count",
    ),
    Rule(
        "ids_shifted",
        "drafter.ids_convention",
        Status.WARN,
        shifted,
        "{engine} captures the outputs of layers {caught} where the file means {meant}: {shift} layer early for every tap",
        "this engine takes an id from 0 for a count of layers ({source}). This costs percents, it does not make a dead drafter",
        'add "eagle_aux_hidden_state_layer_ids": {top} at the top level (read first, used as is; --write does it), '
        "and clear ~/.cache/vllm/torch_compile_cache after any change of ids",
        "vllm#40727; measured on vLLM 0.20.1",
        "ids_one_early",
    ),
    Rule(
        "ids_shifted_by_hand",
        "drafter.ids_convention",
        Status.WARN,
        shifted_by_hand,
        "ids {written} were shifted by hand for {engine}; it captures the right layers {right}",
        "a version that counts correctly will capture one layer late with this file",
        "keep the true ids in dflash_config and put the shifted ones into eagle_aux_hidden_state_layer_ids (--write does it)",
        "vllm#40727",
    ),
    Rule(
        "ids_fields_disagree",
        "drafter.ids_convention",
        Status.FAIL,
        fields_disagree_unconfirmed,
        "two lists of ids disagree ({said}); this engine reads {read}",
        "one of them was edited and the other forgotten; nobody says which is right",
        "make both say the same layers: the top-level list is the other one plus 1",
        "vLLM 0.20.1 gpu_model_runner; recorded runs of two early, ends",
        ids_effect,
    ),
    Rule(
        "ids_fields_disagree_known",
        "drafter.ids_convention",
        Status.WARN,
        fields_disagree_harmless,
        "two lists of ids disagree ({said}); this engine reads {read}",
        "one of them was edited and the other forgotten",
        "make both say the same layers: the top-level list is the other one plus 1",
        "vLLM 0.20.1 gpu_model_runner",
    ),
    Rule(
        "ids_off_family",
        "drafter.ids_family",
        Status.FAIL,
        off_family,
        "{off} of {of} ids are off: {ids} where {right} were trained; {engine} captures {caught}, at most {far} of {total} layers away",
        "ids were guessed or come from another drafter ({origin}: {source}). By measure, ids within two layers bend the curve; "
        "they do not by themselves make a dead drafter: look at mask and rope first. {depth}",
        "write {right} (--write does it, shifted where this engine needs it)",
        "sgl-project/SpecForge configs; measured on vLLM 0.20.1",
        ids_effect,
    ),
    Rule(
        "ids_off_formula",
        "drafter.ids_family",
        Status.WARN,
        off_formula,
        "{off} of {of} ids differ from the usual spacing {right}; {engine} captures {caught}",
        "no published relative of this shape is known; the spacing is a default of the reference code, and some drafters differ from it",
        "compare with the publisher's config, or try --siblings",
        "dflash 0.1.0 build_target_layer_ids",
        ids_effect,
    ),
)
