"""Layer ids: does the engine count as the file does, and are they the trained ones? Pure."""

from __future__ import annotations

from checks.data.drafter_effects import Effect, effect
from checks.data.id_conventions import MEANING
from checks.drafter.case import FORMULA, Case
from checks.drafter.rule import Check, Facts, Rule
from checks.drafter.rules.ids import no_ids, written_value
from checks.model import Status


def no_trained_ids(case: Case) -> str | None:
    """As no_ids; what EAGLE-3 drafters were trained on is in no table."""
    return no_ids(case) if case.is_block else f"{case.kind_name} is not judged by a family's layer ids"


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
    if right is None or meant is None or caught is None:
        return None
    if tuple(sorted(meant)) == right.value or tuple(sorted(caught)) == right.value:
        return None
    common = set(meant) & set(right.value)
    off = max(len(meant), len(right.value)) - len(common)
    return {
        "off": off,
        "of": len(meant),
        "ids": list(meant),
        "right": list(right.value),
        "origin": right.origin,
        "source": right.source,
        "caught": list(caught),
        "far": _far(case) + (", all by one: counted in another way" if _all_by_one(case) else ""),
        "engine": case.engine,
        "depth": _depth(case),
    }


def _all_by_one(case: Case) -> bool:
    right, meant = case.expected.ids, sorted(case.meant_layers or ())
    if right is None or len(meant) != len(right.value):
        return False
    return {a - b for a, b in zip(meant, right.value, strict=True)} in ({1}, {-1})


def _far(case: Case) -> str:
    far = farthest(case)
    return "" if far is None else f", at most {far} of {case.goal.layers} layers away"


def _depth(case: Case) -> str:
    """How the distance compares with the measured pair, where one layer of 12 is 8 % of the depth."""
    far, total = farthest(case), case.goal.layers
    if not far or not total:
        return "The measured pair has 12 layers"
    share = far / total
    less = ", so expect less loss" if share < 1 / 12 else ""
    return (
        f"The measured pair has 12 layers, one is 8 % of its depth; here {far} of {total} are "
        f"{100 * share:.0f} %{less}"
    )


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
    return int(max(abs(a - b) for a, b in zip(sorted(caught), right.value, strict=True)))


def ids_effect(case: Case) -> Effect | None:
    """The measured row by distance: layers off, or the share of the depth where the target is deeper than
    the measured one."""
    far, total = farthest(case), case.goal.layers
    if far is None or total is None:
        return effect("ids_two_off")
    share = far / total
    if far <= 1:
        return effect("ids_one_early")
    if far <= 2 or share <= 2 / 12:
        return effect("ids_two_off")
    return effect("ids_spread_wrong") if share <= 0.5 else effect("ids_far")


def _family_limit(case: Case) -> object:
    return list(case.expected.ids.value) if case.expected.ids else None


CHECKS = (
    Check(
        "drafter.ids_convention",
        "Three ways of counting layers exist; file and engine must use the same one.",
        lambda case: (
            f"{case.engine} captures the outputs of layers {list(case.captured_layers or ())}, as the "
            "file means"
        ),
        skips=no_trained_ids,
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
        skips=no_trained_ids,
        blind=lambda case: (
            None
            if case.expected.ids
            else "neither a published relative nor a rule says which ids are right; try --siblings"
        ),
        value=written_value,
        limit=_family_limit,
    ),
)

RULES = (
    Rule(
        "ids_shifted",
        "drafter.ids_convention",
        Status.WARN,
        shifted,
        "{engine} captures the outputs of layers {caught} where the file means {meant}: {shift} "
        "layer early for every tap",
        "this engine takes an id from 0 for a count of layers ({source}). This costs percents, it "
        "does not make a dead drafter",
        'add "eagle_aux_hidden_state_layer_ids": {top} at the top level (read first, used as is; '
        "--write does it), "
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
        "keep the true ids in dflash_config and put the shifted ones into "
        "eagle_aux_hidden_state_layer_ids (--write does it)",
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
        "{off} of {of} ids are off: {ids} where {right} were trained; {engine} captures {caught}{far}",
        "ids were guessed or come from another drafter ({origin}: {source}). By measure, ids "
        "within two layers bend the curve; "
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
        "no published relative of this shape is known; the spacing is a default of the reference "
        "code, and some drafters differ from it",
        "compare with the publisher's config, or try --siblings",
        "dflash 0.1.0 build_target_layer_ids",
        ids_effect,
    ),
)
