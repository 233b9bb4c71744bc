"""Profiles: named ways to start an engine, as flags with a source and the versions that spell them so."""

from __future__ import annotations

from difflib import get_close_matches

from provision.data.profile_form import Flag, Profile, Setting
from provision.data.profiles_sglang import SGLANG
from provision.data.profiles_vllm import VLLM

__all__ = ["PROFILES", "Flag", "Profile", "Setting", "find", "names", "wrong"]

PROFILES: tuple[Profile, ...] = (
    *VLLM,
    *SGLANG,
    Profile(
        "plain",
        "standin",
        "the engine of the test hosts: it does not speculate",
        (),
        "provision/testhost/standin",
    ),
)


def names(engine: str) -> list[str]:
    """The profiles of an engine kind."""
    return [row.name for row in PROFILES if row.engine == engine]


def find(name: str, engine: str) -> Profile | None:
    return next((row for row in PROFILES if row.name == name and row.engine == engine), None)


def wrong(name: str, engine: str) -> str:
    """Why there is no such profile for this engine, with what there is instead."""
    others = [row.engine for row in PROFILES if row.name == name]
    if others:
        return (
            f"profile {name!r} is for {', '.join(others)}, not for {engine}; "
            f"{engine} has {', '.join(names(engine))}"
        )
    near = get_close_matches(name, names(engine), n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return f"no profile {name!r} is known: {hint}{engine} has {', '.join(names(engine))}"
