"""What ``provision inspect`` says of a machine: plain values, and their JSON. Pure.

A text that is ``unknown`` could not be looked at; ``none`` is positively none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

UNKNOWN = "unknown"
NONE = "none"
EDITED = "provision apply takes out what concerns the GPUs of the inventory, and nothing else"


@dataclass(frozen=True)
class Finding:
    """One conclusion: what was seen where, what it means, what to do. ``kind`` problem: something does not or will not
    work; warning: it is not what somebody meant; note: worth knowing, nothing to be done."""

    id: str
    kind: Literal["problem", "warning", "note"]
    subject: str
    seen: str
    meaning: str
    next_step: str = ""
    source: str = ""

    def as_dict(self) -> dict[str, str]:
        return {
            "id": self.id,
            "kind": self.kind,
            "subject": self.subject,
            "seen": self.seen,
            "meaning": self.meaning,
            "next": self.next_step,
            "source": self.source,
        }


@dataclass(frozen=True)
class Held:
    """A place that holds a GPU or keeps the driver away. ``takes``: the functions of this machine that it binds; None
    where that cannot be told. ``acts_on``: the ids or addresses that it names."""

    path: str
    line: int
    text: str
    what: str
    takes: tuple[str, ...] | None
    acts_on: tuple[str, ...] = ()
    instead: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "line": self.line,
            "text": self.text.strip(),
            "what": self.what,
            "takes": UNKNOWN if self.takes is None else list(self.takes),
            "acts_on": list(self.acts_on),
            "next": self.instead or EDITED,
        }


@dataclass(frozen=True)
class Way:
    """How the GPU could be released now: ``nothing`` to do, ``online``, ``reboot``, ``refused``, or ``unknown``.
    ``not_looked_at`` is what keeps the answer from being sure."""

    how: Literal["nothing", "online", "reboot", "refused", "unknown"]
    reasons: tuple[Mapping[str, str], ...] = ()
    not_looked_at: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return {
            "how": self.how,
            "reasons": [dict(reason) for reason in self.reasons],
            "not_looked_at": list(self.not_looked_at),
        }


@dataclass(frozen=True)
class GpuReport:
    """One GPU with everything that concerns it."""

    bdf: str
    model: str
    device: str
    architecture: str
    flavours: tuple[str, ...] | None
    driver: str
    group: str
    companions: tuple[Mapping[str, Any], ...]
    holders: tuple[Held, ...]
    holders_not_looked_at: tuple[str, ...]
    used_by: tuple[str, ...]
    use_not_looked_at: tuple[str, ...]
    console: str
    release: Way
    drivers: tuple[Mapping[str, Any], ...]
    minor: str
    containers: tuple[str, ...]
    wanted: bool | None = None

    def as_dict(self) -> dict[str, Any]:
        return {
            "bdf": self.bdf,
            "model": self.model,
            "device": self.device,
            "architecture": self.architecture,
            "flavours": UNKNOWN if self.flavours is None else list(self.flavours),
            "driver": self.driver,
            "iommu_group": self.group,
            "companions": [dict(one) for one in self.companions],
            "holders": [holder.as_dict() for holder in self.holders],
            "holders_not_looked_at": list(self.holders_not_looked_at),
            "in_use_by": list(self.used_by),
            "use_not_looked_at": list(self.use_not_looked_at),
            "console": self.console,
            "release": self.release.as_dict(),
            "drivers": [dict(one) for one in self.drivers],
            "minor": self.minor,
            "containers": list(self.containers),
            "in_inventory": self.wanted,
        }


@dataclass(frozen=True)
class Report:
    """One machine. ``host`` is what is true of it as a whole; ``unknown``: what could not be told, and why.
    ``tree_of``: whose tree was read for a machine of an inventory, None for the machine itself."""

    machine: str
    gpus: tuple[GpuReport, ...] | None
    host: Mapping[str, Any]
    holders: tuple[Held, ...]
    findings: tuple[Finding, ...]
    unknown: Mapping[str, str] = field(default_factory=dict)
    tree_of: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return {
            "machine": self.machine,
            **({} if self.tree_of is None else {"tree_of": self.tree_of}),
            "gpus": UNKNOWN if self.gpus is None else [gpu.as_dict() for gpu in self.gpus],
            "host": dict(self.host),
            "holders": [holder.as_dict() for holder in self.holders],
            "findings": [finding.as_dict() for finding in self.findings],
            "unknown": dict(self.unknown),
        }


def told(value: str | None) -> str:
    """A text for the report: what is not known says so."""
    return UNKNOWN if value is None else value


def joined(values: Sequence[str]) -> str:
    return ", ".join(values) or NONE
