"""What the values of a drafter should be: from the table of published drafters, from relatives, from the
target, from the formula."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from checks.data.drafter_families import FAMILIES, Family
from checks.drafter.case import BLOCK_KINDS, FORMULA, Expected, Known
from checks.drafter.config import ModelConfig
from checks.drafter.weights import Shape

MIN_AGREEING = 4
"""So many sizes must agree before a row is taken for this drafter without its name."""


@dataclass(frozen=True)
class Siblings:
    """The rule that fits the configs of published relatives; None where they disagree or say nothing.

    The ids rule is ``round(start + i * (L - gap - start) / (d - 1))``.
    """

    start: int | None = None
    gap: int | None = None
    mask: int | None = None
    block: int | None = None
    theta: float | None = None
    used: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    unreachable: tuple[str, ...] = ()


def spaced_ids(target_layers: int, captured: int, start: int = 1, gap: int = 3) -> tuple[int, ...] | None:
    """The usual rule for layer ids (dflash 0.1.0 ``build_target_layer_ids``; Python rounds halves to even).

    None where it gives no strictly increasing list within the target.
    """
    if captured < 1 or target_layers < 1 or captured > target_layers:
        return None
    if captured == 1:
        return (target_layers // 2,)
    span = target_layers - gap - start
    ids = tuple(round(start + i * span / (captured - 1)) for i in range(captured))
    rising = all(a < b for a, b in pairwise(ids))
    return ids if rising and ids[0] >= 0 and ids[-1] < target_layers else None


def matching_families(
    shape: Shape | None, config: ModelConfig | None, target: ModelConfig, kind: str, label: str
) -> tuple[Family, ...]:
    """Rows whose every known size agrees with this drafter and its target, and enough of them.

    Without weights the kind is what the config calls itself, and generations share their sizes: the block tells
    them apart.
    """
    return tuple(
        row
        for row in FAMILIES
        if (row.kind == kind if shape is not None else _same_block(row, config, kind))
        and _agrees(row, shape, config, target, label)
    )


def _same_block(row: Family, config: ModelConfig | None, kind: str) -> bool:
    block = config.block if config else None
    return row.kind in BLOCK_KINDS and kind in BLOCK_KINDS and (block is None or row.block in (None, block))


def _agrees(
    row: Family, shape: Shape | None, config: ModelConfig | None, target: ModelConfig, label: str
) -> bool:
    own: Shape | ModelConfig | None = shape if shape is not None and shape.layers else config
    seen: dict[str, object] = {"target_layers": target.layers, "vocab": target.vocab}
    for name in ("hidden", "intermediate", "heads", "kv_heads", "head_dim", "layers"):
        seen[name] = getattr(own, name, None)
    seen["captured"] = shape.captured(target.hidden) if shape is not None else None
    pairs = [(getattr(row, name), value) for name, value in seen.items()]
    known = [(wanted, value) for wanted, value in pairs if wanted is not None and value is not None]
    if any(wanted != value for wanted, value in known):
        return False
    named = row.name.split(",")[0].lower() in label.lower()
    return len(known) >= MIN_AGREEING or (named and len(known) >= 2)


def expected_values(
    shape: Shape | None,
    config: ModelConfig | None,
    target: ModelConfig,
    kind: str,
    label: str,
    siblings: Siblings | None = None,
) -> Expected:
    """Collects what is known, each value with its origin; family before siblings before target before
    formula."""
    rows = matching_families(shape, config, target, kind, label)
    notes: list[str] = []

    def family(field: str) -> Known | None:
        values = {getattr(row, field) for row in rows} - {None}
        if len(values) > 1:
            notes.append(f"the matching rows disagree on {field}: {sorted(values, key=str)}")
        if len(values) != 1:
            return None
        row = next(row for row in rows if getattr(row, field) is not None)
        return Known(getattr(row, field), "family", row.name, row.source)

    def sibling(value: Any) -> Known | None:
        used = ", ".join(siblings.used) if siblings else ""
        return None if value is None else Known(value, "siblings", used)

    def of_target(value: Any) -> Known | None:
        return None if value is None else Known(value, "target", "the target's config.json")

    captured = shape.captured(target.hidden) if shape is not None else None
    if captured is None and config is not None and (shape is None or shape.fc_in is None):
        # Without the weights the file's own count is all there is.
        captured = len(_written(config) or ()) or None
    return Expected(
        ids=_either(
            family("ids"),
            lambda: _sibling_ids(siblings, target, captured),
            lambda: _formula_ids(target, captured, kind),
        ),
        mask=_either(family("mask"), lambda: sibling(siblings.mask) if siblings else None),
        theta=_either(
            family("theta"),
            lambda: of_target(target.theta),
            lambda: sibling(siblings.theta) if siblings else None,
        ),
        partial_rotary=family("partial_rotary"),
        block=_either(family("block"), lambda: sibling(siblings.block) if siblings else None),
        layer_types=family("layer_types"),
        window=family("window"),
        eps=_either(family("eps"), lambda: of_target(target.eps)),
        mask_hint=_mask_of_vocabulary(target.vocab),
        families=tuple(row.name for row in rows),
        notes=tuple(notes),
    )


def _mask_of_vocabulary(vocab: int | None) -> Known | None:
    rows = [row for row in FAMILIES if row.vocab == vocab and row.mask is not None]
    if vocab is None or len({row.mask for row in rows}) != 1:
        return None
    source = f"all {len(rows)} drafters in the table with a vocabulary of {vocab}"
    return Known(rows[0].mask, "family", source)


def _either(first: Known | None, *others: Callable[[], Known | None]) -> Known | None:
    return first or next(filter(None, (other() for other in others)), None)


def _formula_ids(target: ModelConfig, captured: int | None, kind: str) -> Known | None:
    if target.layers is None or captured is None or kind != "dflash":
        return None
    ids = spaced_ids(target.layers, captured)
    return (
        None
        if ids is None
        else Known(ids, FORMULA, "dflash 0.1.0 build_target_layer_ids; a default, not a law")
    )


def _sibling_ids(siblings: Siblings | None, target: ModelConfig, captured: int | None) -> Known | None:
    if (
        siblings is None
        or siblings.start is None
        or siblings.gap is None
        or target.layers is None
        or captured is None
    ):
        return None
    ids = spaced_ids(target.layers, captured, siblings.start, siblings.gap)
    rule = f"from layer {siblings.start} to layer L-{siblings.gap}, evenly, as in {', '.join(siblings.used)}"
    return None if ids is None else Known(ids, "siblings", rule)


def fit_siblings(configs: Iterable[tuple[str, ModelConfig]], target: ModelConfig) -> Siblings:
    """Fits the rule of relatives.

    Ids use every relative; mask, block and theta only those with the target's vocabulary.

    A value on which relatives disagree is given up, and the disagreement told.
    """
    usable = [(name, config) for name, config in configs if _written(config)]
    conflicts: list[str] = []
    rules = [
        (start, gap)
        for start in range(9)
        for gap in range(1, 9)
        if usable and all(_explains(config, start, gap) for _, config in usable)
    ]
    start, gap = rules[0] if len(rules) == 1 else (1, 3) if (1, 3) in rules else (None, None)
    if usable and start is None:
        lists = "; ".join(f"{name} {list(_written(config) or ())}" for name, config in usable)
        conflicts.append(f"no even spacing explains the ids of all relatives ({lists})")
    close = [
        (name, config) for name, config in usable if target.vocab is not None and config.vocab == target.vocab
    ]

    def agreed(what: str, take: Callable[[ModelConfig], Any]) -> Any:
        values = {name: value for name, config in close if (value := take(config)) is not None}
        if len(set(values.values())) > 1:
            conflicts.append(
                f"relatives disagree on {what}: " + ", ".join(f"{n} {v}" for n, v in values.items())
            )
            return None
        return next(iter(values.values()), None)

    return Siblings(
        start,
        gap,
        mask=agreed("the mask id", lambda config: config.mask),
        block=agreed("block_size", lambda config: config.block),
        theta=agreed("rope_theta", lambda config: config.theta),
        used=tuple(name for name, _ in usable),
        conflicts=tuple(conflicts),
    )


def _written(config: ModelConfig) -> tuple[int, ...] | None:
    """The relative's ids as output layers, whichever field holds them."""
    for name, offset in (
        ("dflash_config.target_layer_ids", 0),
        ("target_layer_ids", 0),
        ("aux_hidden_state_layer_ids", -1),
    ):
        if name in config.ids:
            return tuple(number + offset for number in config.ids[name])
    return None


def _explains(config: ModelConfig, start: int, gap: int) -> bool:
    ids = _written(config)
    if ids is None or config.num_target_layers is None:
        return True
    return spaced_ids(config.num_target_layers, len(ids), start, gap) == ids
