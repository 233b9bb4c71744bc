"""What was read from a model folder, as values. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from checks.drafter.config import ModelConfig
from checks.safetensors import Tensor


@dataclass(frozen=True)
class Tokens:
    """``added`` maps ids to the text of added (special) tokens; ``vocabulary`` is the path of
    tokenizer.json."""

    added: Mapping[int, str] = field(default_factory=dict)
    vocabulary: str | None = None


@dataclass(frozen=True)
class Folder:
    """One model folder.

    ``config`` is None when there is no config.json; ``tensors`` is empty when none were read.

    ``revisions`` maps each commit found to what claims it; ``digests`` are SHA-256 of the safetensors
    headers.
    """

    path: str
    config: ModelConfig | None = None
    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    absent_files: tuple[str, ...] = ()
    weights_bytes: int = 0
    digests: tuple[str, ...] = ()
    revisions: Mapping[str, str] = field(default_factory=dict)
    tokens: Tokens | None = None

    @property
    def label(self) -> str:
        """The name that the folder and the config give, for matching families by name."""
        return " ".join(filter(None, (self.path, self.config.name if self.config else None)))
