"""What all specs have in common."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from pydantic import BaseModel, ConfigDict

Build = Callable[["Spec", dict[str, Any], Callable[..., None]], None]

watcher: ContextVar[Build | None] = ContextVar("watcher", default=None)
"""Set while an inventory file is being read: it sees every spec that the file builds, so that one reading
reports all that is wrong and not the first thing alone."""


class Spec(BaseModel):
    """Unknown keys are refused: a typo must never become a silent default."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True)

    def __init__(self, **data: Any) -> None:
        build = watcher.get()
        if build is None:
            super().__init__(**data)
        else:
            build(self, data, super().__init__)

    # pydantic's own mark for an initialiser that ends in its own: without it nested validators run twice.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    def to_json(self) -> dict[str, Any]:
        """What ``pyinfra INVENTORY debug-inventory`` prints: pyinfra asks host data for this name."""
        return self.model_dump(mode="json")
