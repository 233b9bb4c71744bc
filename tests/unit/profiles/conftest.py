"""Services of the two engines, as short as they can be written."""

from __future__ import annotations

from typing import Any

from provision.data import profiles
from provision.spec import Engine, Model, Service

DRAFTER = Model(repo="z-lab/drafter", revision="2" * 40)


def service(kind: str, version: str, profile: str = "plain", *flags: str, **other: Any) -> Service:
    found = profiles.find(profile, kind)
    if found and found.drafter:
        other.setdefault("drafter", DRAFTER)
    return Service(
        name="qwen",
        engine=Engine(kind=kind, version=version),
        model=Model(repo="Qwen/Qwen3.6-27B", revision="1" * 40),
        profile=profile,
        flags=flags,
        **other,
    )
