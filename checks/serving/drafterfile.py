"""The drafter doctor asked about a running service: what the drafter's files contradict, as far as they are known.

Everything is judged by :mod:`checks.drafter`; here only the case is made from a record, and what a record leaves open
is filled in from what the drafter says of its own target.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from checks.data.drafter_defaults import DEFAULTS
from checks.drafter.case import Case
from checks.drafter.config import ModelConfig, parse
from checks.drafter.doctor import applicable_rules
from checks.drafter.engine import Engine
from checks.drafter.expected import expected_values
from checks.drafter.folder import Folder
from checks.drafter.observe import build
from checks.drafter.rule import Fired
from checks.drafter.rules.block import right_k
from checks.model import Status
from checks.safetensors import Tensor

FAMILY_TYPE = "qwen3"
"""What published DFlash drafters name as model_type: an engine that runs has filled absent fields in by some class."""

_REFERENCE = Engine("dflash", "0.1.0")
_LAYERED = ("dflash", "dspark")
_NOTHING = ModelConfig()
ANY_COUNTING = ("dflash_config.target_layer_ids", "target_layer_ids")
"""Fields that count layers as the reference does, whichever engine reads them."""


@dataclass(frozen=True)
class DrafterFacts:
    """One judgement of the doctor. ``case`` is None when neither config nor tensors were recorded; ``target_known``
    is False when the target's config was not. Without a config all fields are those of an empty one."""

    case: Case | None = None
    fired: tuple[Fired, ...] = ()
    target_known: bool = False
    method: str | None = None

    @property
    def present(self) -> bool:
        return self.case is not None and self.case.config is not None

    @property
    def config(self) -> ModelConfig:
        return (self.case.config if self.case else None) or _NOTHING

    @property
    def dflash(self) -> bool:
        block = self.case is not None and self.present and self.case.is_block
        return block and self.method in (None, *_LAYERED)

    @property
    def tensors(self) -> frozenset[str] | None:
        return frozenset(self.case.drafter.tensors) if self.case and self.case.drafter.tensors else None

    @property
    def silent_theta(self) -> float:
        """What an absent rope_theta becomes."""
        value = DEFAULTS[FAMILY_TYPE]["rope_theta"]
        return self.config.effective_theta or float(str(value))

    @property
    def ids(self) -> tuple[int, ...] | None:
        """The ids as the reference counts them; None where the file has them in an engine's counting only."""
        return next((self.config.ids[name] for name in ANY_COUNTING if name in self.config.ids), None)

    @property
    def read_as_written(self) -> bool:
        """Whether this engine takes its ids from the reference's field and not from a list made for an engine."""
        written = self.case.written_ids if self.case else None
        return written is not None and written[0] in ANY_COUNTING

    @property
    def unshifted(self) -> bool:
        """Whether this engine version captures another layer than the file means, and nobody has allowed for it."""
        return any(item.rule.name == "ids_shifted" for item in self.fired)

    @property
    def trained(self) -> tuple[int, ...] | None:
        """The trained layers in vLLM's counting: those of a published relative, else those the file names."""
        right = self.case.expected.ids if self.case else None
        if right is None or not right.confirmed:
            return self.meant
        return tuple(number + 1 for number in right.value)

    @property
    def meant(self) -> tuple[int, ...] | None:
        """The layers that the file names, in vLLM's counting: its layer j is the output of decoder layer j - 1."""
        return tuple(number + 1 for number in self.ids) if self.ids else None

    @property
    def best_k(self) -> int | None:
        """Draft tokens per pass as vLLM counts them, without the anchor."""
        if self.case is None or not self.dflash:
            return None
        best = right_k(self.case)
        return best - 1 if best is not None and self.case.engine.name == "sglang" else best

    @property
    def windows_ignored(self) -> str | None:
        """Why sliding layers of this drafter run as full attention on this engine; None when they do not."""
        return next(iter(self.told(("drafter.window",), names=_IGNORED)), None)

    def told(
        self,
        checks: tuple[str, ...],
        statuses: tuple[Status, ...] = (Status.FAIL, Status.WARN),
        names: tuple[str, ...] = (),
        *,
        healthy: bool = False,
    ) -> list[str]:
        """What the doctor's rules of these checks say; ``names`` restricts them to single rules, ``healthy`` leaves
        out what a run of healthy numbers refutes."""
        return [
            item.message
            for item in self.fired
            if item.rule.check in checks
            and item.rule.status in statuses
            and (not names or item.rule.name in names)
            and not (healthy and self._refuted(item))
        ]

    def _refuted(self, item: Fired) -> bool:
        if item.rule.check == "drafter.rope":
            right = self.case.expected.theta if self.case else None
            return right is None or right.origin != "target"
        return item.rule.name in _REFUTED

    def fixes(self, checks: tuple[str, ...], statuses: tuple[Status, ...]) -> list[str]:
        """The next step for each of them, once."""
        found = [i.fix for i in self.fired if i.rule.check in checks and i.rule.status in statuses]
        return list(dict.fromkeys(found))


_REFUTED = (
    "mask_off",
    "ids_off_family",
    "window_refused",
    "window_dropped",
    "window_no_size",
    "window_types_wrong",
)
"""What a published relative or the engine's sources would have expected, and healthy numbers show to be otherwise: a
retrained drafter of the same sizes, an engine that was patched. A rope from the target's own config is not refuted."""

_IGNORED = ("window_ignored", "window_ignored_beyond")


@dataclass(frozen=True)
class Files:
    """The recorded parts: two configs, the tensor list, and what the target's tokenizer says of the mask token."""

    drafter_config: dict[str, Any] | None = None
    drafter_tensors: dict[str, Any] | None = None
    target_config: dict[str, Any] | None = None
    mask_ordinary: bool | None = None
    mask_text: str | None = None


@dataclass(frozen=True)
class Running:
    """The engine that reads them: its name, version and runner, the method, and k as vLLM counts."""

    engine: str | None = None
    version: str | None = None
    runner: str | None = None
    method: str | None = None
    k: int | None = None
    drafter: str = ""
    model: str = ""


def drafter_facts(files: Files, running: Running) -> DrafterFacts:
    """Asks the doctor. Values of a wrong type count as absent; nothing is raised for what a file holds."""
    if not files.drafter_config and not files.drafter_tensors:
        return DrafterFacts(method=running.method)
    config = parse(files.drafter_config) if files.drafter_config else None
    if config is not None and config.model_type is None:
        config = replace(config, model_type=FAMILY_TYPE)
    goal = parse(files.target_config) if files.target_config else _told_target(config)
    engine = _engine(running)
    k = running.k + 1 if running.k is not None and engine.name == "sglang" else running.k
    drafter = Folder(running.drafter, config, _tensors(files.drafter_tensors))
    case = build(drafter, Folder(running.model, goal), engine, same=running.method == "mtp", k=k)
    case = replace(case, mask_ordinary=files.mask_ordinary, mask_text=files.mask_text)
    if not files.target_config and config is not None:
        # A family is recognised by its vocabulary too; as evidence against the drafter its own would prove nothing.
        likely = replace(goal, vocab=config.vocab)
        expected = expected_values(case.shape, config, likely, case.kind, drafter.label)
        case = replace(case, expected=expected)
    return DrafterFacts(case, applicable_rules(case), bool(files.target_config), running.method)


def _told_target(config: ModelConfig | None) -> ModelConfig:
    """What a drafter says of its target: depth, width and end token are the target's."""
    if config is None:
        return ModelConfig()
    return ModelConfig(
        layers=config.num_target_layers, hidden=config.target_hidden or config.hidden, eos=config.eos
    )


def _engine(running: Running) -> Engine:
    """The engine at its version; the reference where that is not known, so that no version is accused."""
    if running.engine is None or running.version is None:
        return _REFERENCE
    try:
        return Engine.parse(
            f"{running.engine}=={running.version}", running.runner if running.engine == "vllm" else None
        )
    except ValueError:
        return _REFERENCE


def _tensors(told: dict[str, Any] | None) -> dict[str, Tensor]:
    """Tensors as the doctor takes them; a name without a shape is a tensor that is there."""
    found: dict[str, Tensor] = {}
    for name, entry in (told or {}).items():
        shape = entry.get("shape") if isinstance(entry, dict) else None
        kind = entry.get("dtype") if isinstance(entry, dict) else None
        sizes = shape if isinstance(shape, list) and len(shape) <= 8 else []
        whole = all(type(size) is int and 0 <= size < 2**40 for size in sizes)
        found[name] = Tensor(kind if isinstance(kind, str) else "", tuple(sizes) if whole else ())
    return found
