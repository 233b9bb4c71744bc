"""The measurements as read from a record: whatever has the wrong type is not there. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from checks.errors import BadInput
from checks.record import Section

KIND, PATH = "load", "measured"
MAX_GPUS = 1024


@dataclass(frozen=True)
class Run:
    """One GPU at work: what each step measured, and how it ended (None: in order)."""

    index: int
    steps: Mapping[str, Any] = field(repr=False)
    ended: Mapping[str, Any] | None

    def number(self, *path: str) -> float | None:
        return number(self.steps, *path)

    def tree(self, *path: str) -> Mapping[str, Any]:
        return tree(self.steps, *path)


@dataclass(frozen=True)
class Measured:
    """Everything of one ``provcheck load``. ``init`` is the reason why NVML could not be started."""

    init: str | None
    forced: bool
    chosen: tuple[int, ...]
    before: tuple[Mapping[str, Any], ...]
    after: tuple[Mapping[str, Any], ...] | None
    runs: Mapping[int, Run]
    options: Mapping[str, Any]
    taken: frozenset[int] = frozenset()
    """GPUs that another test of ours was on."""

    def device(self, index: int) -> Mapping[str, Any]:
        return self.before[index] if index < len(self.before) else {}

    def name(self, index: int) -> str:
        name = self.device(index).get("nvmlDeviceGetName") or self.runs[index].tree("start").get("name")
        return name if isinstance(name, str) else ""

    def siblings(self, index: int) -> Iterator[Run]:
        """The other GPUs of the same name that were at work."""
        return (
            run
            for run in self.runs.values()
            if run.index != index and self.name(run.index) == self.name(index)
        )


def number(node: Any, *path: str) -> float | None:
    """The finite number at ``path``, None when there is none."""
    for key in path:
        node = node.get(key) if isinstance(node, Mapping) else None
    if isinstance(node, bool) or not isinstance(node, (int, float)) or not math.isfinite(node):
        return None
    return node


def tree(node: Any, *path: str) -> Mapping[str, Any]:
    """The object at ``path``, an empty one when there is none."""
    for key in path:
        node = node.get(key) if isinstance(node, Mapping) else None
    return node if isinstance(node, Mapping) else {}


def of_record(sections: tuple[Section, ...], name: str) -> Measured:
    """Finds the section in a record. Raises BadInput when there is none or it holds something else."""
    section = next((s for s in sections if (s.kind, s.path) == (KIND, PATH)), None)
    if section is None or section.data is None:
        raise BadInput(f"{name} holds no load measurement: make one with 'provcheck load --record FILE'")
    try:
        data = json.loads(section.data)
    except (ValueError, RecursionError):
        raise BadInput(f"{name}: the load measurement is not JSON") from None
    if not isinstance(data, dict):
        raise BadInput(f"{name}: the load measurement must be an object")
    return parse(data, name)


def parse(data: Mapping[str, Any], name: str) -> Measured:
    """Raises BadInput when a part that everything hangs on has the wrong type."""
    before = data.get("before")
    if not isinstance(before, dict) or "nvmlInit" not in before:
        raise BadInput(f"{name}: 'before' must be what NVML said before the load")
    chosen, runs = data.get("chosen"), data.get("runs")
    if not isinstance(chosen, list) or not all(_is_index(index) for index in chosen):
        raise BadInput(f"{name}: 'chosen' must be a list of GPU numbers")
    if not isinstance(runs, list) or not all(isinstance(run, dict) for run in runs):
        raise BadInput(f"{name}: 'runs' must be a list of objects")
    parsed = [_run(run, name) for run in runs]
    after = data.get("after")
    failed = before["nvmlInit"]
    return Measured(
        init=None if failed is None else _words(failed),
        forced=data.get("force") is True,
        chosen=tuple(dict.fromkeys(chosen)),
        before=_devices(before),
        after=_devices(after) if isinstance(after, dict) and after.get("nvmlInit", "") is None else None,
        runs={run.index: run for run in parsed},
        options=tree(data, "options"),
        taken=frozenset(filter(_is_index, data.get("taken") or ())),
    )


def _run(data: Mapping[str, Any], name: str) -> Run:
    index, steps, ended = data.get("index"), data.get("steps"), data.get("ended")
    if not _is_index(index) or not isinstance(steps, dict) or not isinstance(ended, (dict, type(None))):
        raise BadInput(f"{name}: a run must have index, steps and ended")
    assert isinstance(index, int)
    return Run(index, steps, ended or None)


def _devices(dump: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    devices = dump.get("devices")
    listed = devices[:MAX_GPUS] if isinstance(devices, list) else []
    return tuple(device if isinstance(device, dict) else {} for device in listed)


def _is_index(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MAX_GPUS


def _words(gap: Any) -> str:
    return f"{tree(gap).get('msg') or 'no answer'} (code {tree(gap).get('err')})"[:300]
