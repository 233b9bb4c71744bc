"""The case that the rules judge: everything known about one drafter, its target and its engine, as plain
values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from checks.data.id_conventions import MEANING
from checks.drafter.config import ModelConfig
from checks.drafter.engine import Engine
from checks.drafter.folder import Folder
from checks.drafter.weights import Shape

BLOCK_KINDS = ("dflash", "dflash2")
EAGLES = ("eagle", "eagle3")
KIND_NAMES = {
    "dflash": "a DFlash drafter",
    "dflash2": "a second-generation DFlash drafter",
    "eagle": "an EAGLE drafter of the first generations",
    "eagle3": "an EAGLE-3 drafter",
    "mtp": "a prediction layer of the target",
    "draft_model": "an ordinary draft model",
}


@dataclass(frozen=True)
class Known:
    """A value with its origin: ``weights``, ``target``, ``family``, ``siblings``, ``config`` or ``formula,
    unconfirmed``.

    ``source`` is short enough for a message, ``reference`` is where that was read.
    """

    value: Any
    origin: str
    source: str
    reference: str = ""

    @property
    def confirmed(self) -> bool:
        return self.origin != FORMULA


FORMULA = "formula, unconfirmed"


@dataclass(frozen=True)
class Expected:
    """What the values should be and who says so; None where nobody does.

    ``mask_hint`` is the mask of every published drafter with the target's vocabulary: evidence, no proof.
    """

    ids: Known | None = None
    mask: Known | None = None
    theta: Known | None = None
    partial_rotary: Known | None = None
    block: Known | None = None
    layer_types: Known | None = None
    window: Known | None = None
    eps: Known | None = None
    mask_hint: Known | None = None
    families: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Case:
    """One judgement.

    ``mask_ordinary`` says whether the tokenizer emits the configured mask id (None: not known); ``in_target``
    that drafter and target are one checkpoint (multi-token prediction).
    """

    drafter: Folder
    target: Folder
    engine: Engine
    shape: Shape | None
    expected: Expected
    k: int | None = None
    context: int | None = None
    mask_ordinary: bool | None = None
    mask_text: str | None = None
    in_target: bool = False

    @property
    def config(self) -> ModelConfig | None:
        return self.drafter.config

    @property
    def goal(self) -> ModelConfig:
        """The target's config; reading a target without one is refused before a case exists."""
        return self.target.config or ModelConfig()

    @property
    def kind(self) -> str:
        """What sort of drafter this is: dflash, dflash2, eagle, eagle3, mtp, draft_model or unknown."""
        return "mtp" if self.in_target else kind_of(self.config, self.shape)

    @property
    def kind_name(self) -> str:
        """The kind as it stands in a sentence."""
        return KIND_NAMES.get(self.kind, "a drafter of unknown kind")

    @property
    def is_block(self) -> bool:
        return self.kind in BLOCK_KINDS

    @property
    def captured_count(self) -> int | None:
        """How many target layers the weights expect."""
        if self.shape is None:
            return None
        own = self.config.target_hidden if self.config else None
        return self.shape.captured(self.goal.hidden or own)

    @property
    def written_ids(self) -> tuple[str, tuple[int, ...]] | None:
        """The field that this engine reads, and the ids in it; None when it finds none."""
        if self.config is None:
            return None
        for reading in self.engine.readings:
            if reading.field in self.config.ids:
                return reading.field, self.config.ids[reading.field]
        return None

    @property
    def captured_layers(self) -> tuple[int, ...] | None:
        """Output layers (``i``) that this engine captures for this file; -1 is the embeddings."""
        written = self.written_ids
        if written is None:
            return None
        offset = next(row.offset for row in self.engine.readings if row.field == written[0])
        return tuple(number + offset for number in written[1])

    @property
    def meant_layers(self) -> tuple[int, ...] | None:
        """Output layers that the writer of the file meant, by the convention of the field that the engine
        reads."""
        written = self.written_ids
        return None if written is None else tuple(number + MEANING[written[0]] for number in written[1])


def kind_of(config: ModelConfig | None, shape: Shape | None) -> str:
    """The kind by tensors first, by what the config calls itself where the tensors do not tell."""
    if shape is not None and not shape.guessed and shape.kind not in {"unknown", "draft_model"}:
        return shape.kind
    names = " ".join(config.architectures).lower() if config else ""
    for word, kind in (
        ("dflash2", "dflash2"),
        ("dflash", "dflash"),
        ("eagle3", "eagle3"),
        ("peagle", "eagle3"),
        ("eagle", "eagle"),
    ):
        if word in names:
            return kind
    if config is not None and any(name != "eagle_aux_hidden_state_layer_ids" for name in config.ids):
        return "dflash"
    if shape is not None and not (shape.guessed and names):
        return shape.kind
    return "draft_model" if config is not None and names else "unknown"
