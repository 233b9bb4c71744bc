"""What all specs have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, Self

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

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with other values, judged like any spec: pydantic's own takes them unseen."""
        if not update:
            return super().model_copy(deep=deep)
        return type(self)(**{name: getattr(self, name) for name in type(self).model_fields} | dict(update))

    def to_json(self) -> dict[str, Any]:
        """What ``pyinfra INVENTORY debug-inventory`` prints: pyinfra asks host data for this name."""
        return self.model_dump(mode="json")
