"""A baseline: the few numbers of a good run that a later run is held against, and its settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from checks.errors import BadInput

SCHEMA = "provcheck-baseline/1"


@dataclass(frozen=True)
class Baseline:
    """``tok_s`` decode tokens/s of one request; ``by_concurrency`` per-request tokens/s at 4, 16 …;
    ``ms_per_step`` milliseconds per draft step (per token with speculation off); ``length`` acceptance length,
    None with speculation off; ``drafter`` the fields of the drafter's config that matter
    (:func:`checks.serving.drafterdiff.fields_of`)."""

    name: str
    engine: str | None = None
    version: str | None = None
    model: str | None = None
    method: str | None = None
    k: int | None = None
    length: float | None = None
    drafts: float | None = None
    positions: tuple[float, ...] = ()
    tok_s: float | None = None
    by_concurrency: dict[str, float] = field(default_factory=dict)
    ms_per_step: float | None = None
    layers: tuple[int, ...] | None = None
    cache_dirs: tuple[str, ...] = ()
    prompt_tokens: float | None = None
    thinking: bool | None = None
    prompts: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    drafter: dict[str, Any] = field(default_factory=dict)

    @property
    def speculation(self) -> bool:
        return self.method is not None


def to_json(baseline: Baseline, taken: str) -> dict[str, Any]:
    data = {name: getattr(baseline, name) for name in Baseline.__dataclass_fields__ if name != "name"}
    return {"schema": SCHEMA, "taken": taken, **data}


def from_json(data: dict[str, Any], name: str) -> Baseline:
    """Reads a saved baseline. Raises BadInput when a number in it is none."""
    numbers: dict[str, float | None] = {}
    for key in ("length", "drafts", "tok_s", "ms_per_step", "prompt_tokens"):
        value = data.get(key)
        if value is not None and not _number(value):
            raise BadInput(
                f"{name}: {key} is {str(value)[:40]!r}, no number of a run; save the baseline again"
            )
        numbers[key] = value
    return Baseline(
        name=name,
        engine=_text(data, "engine"),
        version=_text(data, "version"),
        model=_text(data, "model"),
        method=_text(data, "method"),
        k=data["k"] if isinstance(data.get("k"), int) else None,
        positions=tuple(float(item) for item in _list(data, "positions") if _number(item)),
        by_concurrency={
            str(level): float(rate)
            for level, rate in _object(data, "by_concurrency").items()
            if _number(rate)
        },
        layers=tuple(item for item in _list(data, "layers") if isinstance(item, int)) or None,
        cache_dirs=tuple(str(item) for item in _list(data, "cache_dirs")),
        thinking=data["thinking"] if isinstance(data.get("thinking"), bool) else None,
        prompts=_text(data, "prompts"),
        settings=_object(data, "settings"),
        drafter=_object(data, "drafter"),
        **numbers,
    )


def _text(data: dict[str, Any], key: str) -> str | None:
    value = data.get(key)
    return value if isinstance(value, str) else None


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e12


def _list(data: dict[str, Any], key: str) -> list[Any]:
    value = data.get(key)
    return value[:1024] if isinstance(value, list) else []


def _object(data: dict[str, Any], key: str) -> dict[str, Any]:
    value = data.get(key)
    return value if isinstance(value, dict) else {}
