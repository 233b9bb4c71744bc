"""What a profile takes from the place where it runs: GPUs, driver, the models' own configs, what was measured."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

CONFIG = "config.json"


@dataclass(frozen=True)
class Around:
    """``gpus`` is how many the guest has, ``cards`` their models, ``driver`` the pinned version, ``engine`` the digest
    of the engine's environment (sources, lock, patches). ``target`` and ``drafter`` are the models' ``config.json``;
    None: not read (yet). ``nccl`` are the variables that a measurement proved to be needed, ``passed`` those that
    the machine's own environment sets for everybody, ``said`` what the operator should know of both."""

    gpus: int = 0
    cards: tuple[str, ...] = ()
    driver: str | None = None
    engine: str | None = None
    target: Mapping[str, Any] | None = None
    drafter: Mapping[str, Any] | None = None
    nccl: Mapping[str, str] = field(default_factory=dict)
    passed: Mapping[str, str] = field(default_factory=dict)
    said: tuple[str, ...] = ()

    @property
    def key(self) -> dict[str, Any]:
        """What of it changes compiled code, for the key of a compile cache. A config goes in by its content: vLLM
        0.20.1 keys its cache by neither the drafter's layer ids nor anything else of ``dflash_config``."""
        return {
            "gpus": self.gpus,
            "cards": sorted(self.cards),
            "driver": self.driver,
            "engine": self.engine,
            "target": content(self.target),
            "drafter": content(self.drafter),
        }


def content(config: Mapping[str, Any] | None) -> str | None:
    """A digest of what a config says, whatever its spaces and its order of keys."""
    if config is None:
        return None
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()


def read_config(text: str | bytes | None) -> Mapping[str, Any] | None:
    """A ``config.json``; None where there is none, or none that can be read."""
    if text is None:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
