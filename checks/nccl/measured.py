"""What a run measured, as plain values: the form in a record (``Section("nccl", "measured")``). Pure.

    {"look": {"nccl", "runtime", "driver", "gpus", "access"}, "gpus": [ordinal, ...], "size": bytes,
     "source": {"how", "asked", ...}, "environment": {...}, "busy": [...], "pairs": [...],
     "runs": [{"name", "extra", "ranks": [...], "nranks", "removed"}], "nodes": {...}}

Records come from anywhere: what has the wrong type is refused, not guessed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from checks.errors import BadInput

KIND, PATH = "nccl", "measured"
STOPPED = ("T", "t")
"""The kernel's letters for a process that a signal, or a debugger, has stopped (proc(5), stat)."""


@dataclass(frozen=True)
class Rank:
    """One rank of one run, from what it said; ``gpu`` is its CUDA ordinal."""

    rank: int
    gpu: int
    phase: str
    in_phase_s: float
    done: bool
    ended: str | None
    code: int | None
    told: tuple[Mapping[str, Any], ...]
    log: str = field(repr=False, default="")
    stderr: str = ""
    state: str | None = None

    def first(self, key: str) -> Any:
        """What it said under a key the first time, None when it never did."""
        return next((line[key] for line in self.told if key in line), None)

    @property
    def sums(self) -> list[Mapping[str, Any]]:
        return [line for line in self.told if isinstance(line.get("sum"), int)]

    @property
    def hung(self) -> bool:
        return self.ended == "deadline"

    @property
    def stopped(self) -> bool:
        """Whether its process was stopped by a signal or a debugger when it hung."""
        return self.hung and self.state in STOPPED


@dataclass(frozen=True)
class Run:
    """All ranks of one communicator; ``extra`` are the variables that this run had and the first had not."""

    name: str
    nranks: int
    ranks: tuple[Rank, ...]
    extra: Mapping[str, str] = field(default_factory=dict)

    @property
    def whole(self) -> bool:
        return bool(self.ranks) and all(rank.done for rank in self.ranks)


@dataclass(frozen=True)
class Measured:
    """The parts as they are; ``look`` and ``pairs`` are read by their judges with care."""

    look: Mapping[str, Any]
    gpus: tuple[int, ...]
    size: int
    source: Mapping[str, Any]
    environment: Mapping[str, str]
    runs: tuple[Run, ...] = ()
    pairs: tuple[Mapping[str, Any], ...] | None = None
    busy: tuple[str, ...] = ()
    nodes: Mapping[str, Any] | None = None
    shm_bytes: int | None = None
    hidden: str | None = None


def parse(raw: bytes, name: str) -> Measured:
    """Reads the JSON of a record. Raises BadInput when a part has the wrong type."""
    try:
        data = json.loads(raw)
        return of(data)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise BadInput(f"{name}: its measurement of NCCL cannot be read: {error!r}"[:300]) from None


def of(data: Mapping[str, Any]) -> Measured:
    """From plain values. Raises TypeError, KeyError, ValueError or AttributeError for a wrong part."""
    pairs = data.get("pairs")
    return Measured(
        look=_mapping(data["look"]),
        gpus=tuple(int(gpu) for gpu in data["gpus"]),
        size=int(data["size"]),
        source=_mapping(data.get("source") or {}),
        environment={str(k): str(v) for k, v in _mapping(data.get("environment") or {}).items()},
        runs=tuple(run_of(run) for run in data.get("runs") or ()),
        pairs=None if pairs is None else tuple(_mapping(pair) for pair in pairs),
        busy=tuple(str(word) for word in data.get("busy") or ()),
        nodes=None if data.get("nodes") is None else _mapping(data["nodes"]),
        shm_bytes=None if data.get("shm_bytes") is None else int(data["shm_bytes"]),
        hidden=None if data.get("hidden") is None else str(data["hidden"])[:200],
    )


def run_of(run: Mapping[str, Any]) -> Run:
    """One run from plain values; raises as ``of`` does."""
    extra = {str(k): str(v) for k, v in _mapping(run.get("extra") or {}).items()}
    return Run(str(run["name"]), int(run["nranks"]), tuple(_rank(rank) for rank in run["ranks"]), extra)


def _rank(rank: Mapping[str, Any]) -> Rank:
    code, ended, state = (rank.get(key) for key in ("code", "ended", "state"))
    return Rank(
        int(rank["rank"]),
        int(rank["gpu"]),
        str(rank["phase"]),
        float(rank["in_phase_s"]),
        rank["done"] is True,
        None if ended is None else str(ended),
        None if code is None else int(code),
        tuple(_mapping(line) for line in rank["told"]),
        str(rank.get("log") or ""),
        str(rank.get("stderr") or ""),
        None if state is None else str(state),
    )


def _mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"{str(value)[:40]!r} is no object")
    return value
