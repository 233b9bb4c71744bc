"""What was observed of a service: raw evidence, as text and plain JSON values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from checks.model import Finding


@dataclass(frozen=True)
class Observation:
    """None = not recorded.

    ``before`` and ``after`` are metrics pages; with ``after`` alone the counts are those since start. ``config``
    holds what the running service says (``server_info``, ``proc``, ``version``, ``engine``); ``window`` what a
    client measured; ``drafter_tensors`` maps tensor names to ``{"dtype": ..., "shape": ...}``; ``mask_ordinary`` and
    ``mask_text`` are what the target's tokenizer says of the mask token;
    ``findings`` are those that only a live look gives (nothing listens, wrong key, the window broke off).
    """

    before: str | None = None
    after: str | None = None
    log: str | None = None
    config: dict[str, Any] = field(default_factory=dict)
    drafter_config: dict[str, Any] | None = None
    drafter_tensors: dict[str, Any] | None = None
    target_config: dict[str, Any] | None = None
    mask_ordinary: bool | None = None
    mask_text: str | None = None
    window: dict[str, Any] | None = None
    passive: bool = False
    findings: tuple[Finding, ...] = ()
    host: str = ""
    taken: str = ""
    live: bool = False
