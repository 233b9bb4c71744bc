"""How a model is spread over the guest's GPUs: tensor parallel over all of them, unless the operator says otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from checks.errors import BadInput
from checks.fit.shape import read_shape, undivided
from provision.data.around import Around

OTHER = (
    "--pipeline-parallel-size",
    "-pp",
    "--pp-size",
    "--data-parallel-size",
    "-dp",
    "--dp-size",
)
"""Flags of the other ways to spread a model (vLLM 0.20.1-0.33.0 arg_utils.py, sglang 0.5.11-0.5.23): whoever gives one
spreads it himself."""


@dataclass(frozen=True)
class Split:
    """``flags`` to add, ``notes`` to show, ``wrong`` as (seen, why, next step)."""

    flags: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    wrong: tuple[tuple[str, str, str], ...] = ()


def ranks(flags: Sequence[str], names: Sequence[str]) -> int | None:
    """The value of the last of these flags; None where none is given, or it is no number."""
    found = None
    for index, flag in enumerate(flags):
        _, equals, value = flag.partition("=")
        if _name(flag) in names:
            text = value if equals else (flags[index + 1] if index + 1 < len(flags) else "")
            found = int(text) if text.isdecimal() else None
    return found


def _name(flag: str) -> str:
    """An option's name; vLLM takes underscores for dashes (FlexibleArgumentParser.parse_args)."""
    name = flag.partition("=")[0]
    return name.replace("_", "-") if name.startswith("--") else name


def split(flags: Sequence[str], names: Sequence[str], around: Around) -> Split:
    """Tensor parallel over the guest's GPUs. ``names``: the engine's spellings, the one to write first."""
    if not names or around.gpus < 2:
        return Split()
    given = {_name(flag) for flag in flags}
    if given & set(names):
        asked = ranks(flags, names)
        wrong = _undivided(asked, around) if asked else ()
        if asked is not None and asked < around.gpus and not given & set(OTHER):
            return Split(notes=(f"flags use {asked} of the guest's {around.gpus} GPUs",), wrong=wrong)
        return Split(wrong=wrong)
    if given & set(OTHER):
        return Split(notes=("flags spread the model themselves: no tensor parallel is added",))
    wrong = _undivided(around.gpus, around)
    return Split(
        (names[0], str(around.gpus)),
        (f"tensor parallel {around.gpus}: the guest has {around.gpus} GPUs",),
        wrong,
    )


def _undivided(ranks: int, around: Around) -> tuple[tuple[str, str, str], ...]:
    found = []
    for who, config in (("the model", around.target), ("the drafter", around.drafter)):
        texts = _of(config, ranks)
        if texts:
            fits = [
                count
                for count in range(around.gpus, 0, -1)
                if not _of(around.target, count) and not _of(around.drafter, count)
            ]
            found.append(
                (
                    f"{ranks} GPUs share {who}, and {'; '.join(texts)}",
                    "both engines deal whole heads to their ranks and refuse what does not divide",
                    f"set the tensor-parallel flag to {fits[0]} in flags, or give the guest {fits[0]} GPU(s)"
                    if fits
                    else "give the guest another number of GPUs",
                )
            )
    return tuple(found)


def _of(config: Mapping[str, Any] | None, ranks: int) -> list[str]:
    """What does not divide; nothing where the config is not known, or does not say: the engine tells then."""
    if config is None:
        return []
    try:
        return undivided(read_shape(config), ranks)
    except BadInput:
        return []
