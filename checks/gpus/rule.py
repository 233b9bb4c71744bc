"""The form of a rule: a pure function that judges one subject and gives an Outcome."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from checks.gpus.dump import NOT_READ, Dump, Gap, Gpu
from checks.gpus.node import Node
from checks.model import Finding, Status


@dataclass(frozen=True)
class Outcome:
    """A finding without its id and subject, which the caller knows."""

    status: Status
    message: str
    value: Any = None
    limit: Any = None
    unit: str | None = None
    cause: str | None = None
    fix: str | None = None

    def finding(self, identity: str, subject: str) -> Finding:
        return Finding(
            identity,
            self.status,
            subject,
            self.message,
            value=self.value,
            limit=self.limit,
            unit=self.unit,
            cause=self.cause,
            fix=self.fix,
        )

    def because(self, cause: str) -> Outcome:
        return replace(self, cause=cause)


@dataclass(frozen=True)
class Plan:
    """What the caller means to run here; every field left at its default is not judged against a plan.

    ``needs_bytes``: memory that a launch needs free on every GPU. ``mig``: MIG is meant to be on.
    ``compute_mode``: the planned one, as NVML numbers it (COMPUTE_MODES), None when none was named.
    """

    needs_bytes: int | None = None
    mig: bool = False
    compute_mode: int | None = None


COMPUTE_MODES = {"default": 0, "prohibited": 2, "exclusive-process": 3}
"""Names of nvmlComputeMode_t (nvml.h); 1, exclusive-thread, is gone since CUDA 8."""


@dataclass(frozen=True)
class Scene:
    """What a rule may look at: NVML, the machine, how many GPUs the caller expects (None: not said), what is
    planned, and what an earlier record said (``since``, None without one)."""

    dump: Dump
    node: Node
    expect: int | None = None
    plan: Plan = Plan()
    since: Dump | None = None
    live: bool = False
    """Whether the evidence was read just now: what is missing then could not be read."""

    @property
    def gpus_wanted(self) -> bool:
        """Whether a machine without a working GPU is known to be wrong, rather than merely not looked at."""
        return bool(self.expect) or (self.expect is None and bool(self.node.gpus))

    def holds(self, *keys: str) -> bool:
        """Whether the evidence has one of these getters at all, of whichever GPU, answered or not;
        evidence that was read just now always should."""
        return self.live or any(key in gpu.values for gpu in self.dump.gpus for key in keys)

    def siblings(self, gpu: Gpu) -> list[Gpu]:
        return [other for other in self.dump.gpus if other.index != gpu.index and other.name == gpu.name]


class HostRule(NamedTuple):
    id: str
    judge: Callable[[Scene], Outcome]


class GpuRule(NamedTuple):
    """``judge`` gives None where the evidence never held what it judges: the check is left out then."""

    id: str
    judge: Callable[[Gpu, Scene], Outcome | None]


def passed(message: str, **more: Any) -> Outcome:
    return Outcome(Status.PASS, message, **more)


def warned(message: str, **more: Any) -> Outcome:
    return Outcome(Status.WARN, message, **more)


def failed(message: str, **more: Any) -> Outcome:
    return Outcome(Status.FAIL, message, **more)


def skipped(message: str, **more: Any) -> Outcome:
    return Outcome(Status.SKIP, message, **more)


def unknown(message: str, **more: Any) -> Outcome:
    return Outcome(Status.UNKNOWN, message, **more)


def first_error(*values: object) -> Gap | None:
    """The first of them that is an error proper: one that no missing feature and no old record explains."""
    return next((v for v in values if isinstance(v, Gap) and not v.absent and v != NOT_READ), None)


def not_absent(*values: object) -> Gap | None:
    """The first of them that no missing feature explains; like first_error, and what was not read counts too."""
    return next((v for v in values if isinstance(v, Gap) and not v.absent), None)


def unread(what: str, gap: Gap, *, must_exist: bool = False) -> Outcome:
    """A value that is not there: a skip where the hardware cannot have it, else unknown.

    ``must_exist``: this board is known to have it, so even NotSupported is no excuse.
    """
    if gap.absent and not must_exist:
        return skipped(f"{what}: not supported by this GPU or driver")
    if gap.absent:
        return unknown(f"{what}: this board has it, and NVML says {gap}")
    return unknown(f"{what} could not be read: {gap}")
