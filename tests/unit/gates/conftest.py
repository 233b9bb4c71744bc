"""Profiles as the chain stages them, and what the gate of the GPUs saw of a guest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from provision.spec import Engine, Guest, Model, Service
from provision.stack.desired import DesiredService, desired_service
from provision.stack.gates import Case, Gpus

COMMIT = "0123456789abcdef0123456789abcdef01234567"
TWO = ("42:00.0", "61:00.0")


def gpu(index: int, *held: str, free: int = 47 << 30, total: int = 48 << 30) -> dict[str, Any]:
    return {
        "index": index,
        "uuid": f"GPU-{index}",
        "memory": {"total": total, "free": free, "used": total - free},
        "held_by": list(held),
    }


def facts(*gpus: dict[str, Any], driver: str = "580.159.04") -> dict[str, Any]:
    return {"driver": driver, "gpus": list(gpus)}


IDLE = Gpus(green=True, facts=facts(gpu(0), gpu(1)))
Make = Callable[..., Case]


@pytest.fixture
def make() -> Make:
    """A case: engine ``kind`` at ``version`` with further fields of the service; idle GPUs unless said otherwise."""

    def build(
        kind: str = "vllm",
        version: str = "0.33.0",
        *,
        gpus: tuple[str, ...] = TWO,
        seen: Gpus = IDLE,
        running: bool = False,
        kept: dict[str, str] | None = None,
        **service: Any,
    ) -> Case:
        model = Model(repo="org/target", revision=COMMIT)
        made = Service(name="chat", engine=Engine(kind=kind, version=version), model=model, **service)
        guest = Guest(name="llm", backend="lxc", id="c1", gpus=gpus, services=[made])
        return Case(guest, desired_service(guest, made), seen, running, kept or {})

    return build


@pytest.fixture
def drafting(make: Make) -> DesiredService:
    drafter = Model(repo="org/drafter", revision=COMMIT)
    return make(profile="vllm-dflash", drafter=drafter).profile
