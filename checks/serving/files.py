"""Observes the files behind a service: the drafter's config and tensor headers, the target's config and tokenizer.

What is kept is small enough for a record: configs as they stand, names and shapes of tensors, and what the target's
tokenizer says of the one mask token.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from checks.bounded_json import BadJson
from checks.drafter.config import parse
from checks.drafter.files import read_drafter
from checks.drafter.tokenizer import is_ordinary, read_tokens
from checks.errors import BadInput
from checks.serving import record
from checks.serving.observation import Observation

MAX_TENSORS = 20_000
"""More than any drafter has; a target of its own size is not a drafter, and its list is not kept."""


def add(seen: Observation, drafter: Path | None, target: Path | None) -> Observation:
    """The observation with what these folders (or single config files) say. Raises BadInput for unreadable ones."""
    if drafter is not None:
        seen = replace(seen, drafter_config=_config(drafter), drafter_tensors=_tensors(drafter))
    if target is not None:
        seen = replace(seen, target_config=_config(target))
        mask = parse(seen.drafter_config).mask if seen.drafter_config else None
        if mask is not None and target.is_dir():
            seen = _with_mask(seen, target, mask)
    return seen


def _config(folder: Path) -> dict[str, Any] | None:
    path = folder / "config.json" if folder.is_dir() else folder
    return record.read_object(path, record.MAX_CONFIG)


def _tensors(folder: Path) -> dict[str, Any] | None:
    """Headers of all weight files; None where there is no weight file."""
    if not folder.is_dir():
        return None
    tensors = read_drafter(folder).tensors
    if not tensors or len(tensors) > MAX_TENSORS:
        return None
    return {name: {"dtype": entry.dtype, "shape": list(entry.shape)} for name, entry in tensors.items()}


def _with_mask(seen: Observation, target: Path, mask: int) -> Observation:
    try:
        tokens = read_tokens(target)
        if tokens is None:
            return seen
        return replace(seen, mask_ordinary=is_ordinary(tokens, mask), mask_text=tokens.added.get(mask))
    except (BadJson, OSError) as error:
        raise BadInput(f"the tokenizer files of {target} cannot be read: {error}") from None
