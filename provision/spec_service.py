"""An LLM service as an operator writes it: engine, model, how it is started, what is tried instead."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StrictInt, model_validator

from checks.serving.limits import Limits
from provision.forms import Address, LocalPath, Name, Port, Where, refuse
from provision.spec_base import Spec
from provision.spec_engine import Engine
from provision.spec_migration import Migration
from provision.spec_model import Model
from provision.spec_silence import Silence

LONGEST_WORD = 131_071
"""Bytes of one argument or variable that a program can be given (execve(2), MAX_ARG_STRLEN)."""

LONGEST_WITH_TRIAL = 53
"""Letters of a service's name to which ``-candidate`` can be added: a name has at most 63."""


def variables(value: dict[str, str]) -> dict[str, str]:
    """Variables of an environment file. Raises ValueError for what such a file cannot carry."""
    wrong = [key for key in value if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", key)]
    if wrong:
        raise ValueError(f"no names of environment variables: {', '.join(map(repr, wrong))}")
    if any(char in text for text in value.values() for char in "\n\r\0"):
        raise ValueError("a value holds a line break: the unit's environment file cannot carry it")
    long = [key for key, text in value.items() if len(f"{key}={text}".encode()) > LONGEST_WORD]
    if long:
        raise ValueError(
            f"longer than the {LONGEST_WORD} bytes that a program can be given: {', '.join(long)}"
        )
    return value


def words(value: tuple[str, ...]) -> tuple[str, ...]:
    """Words of a command line. Raises ValueError for what no program can be given."""
    if any("\0" in word for word in value):
        raise ValueError("a word holds a NUL byte: no program can be given it")
    if any(len(word.encode()) > LONGEST_WORD for word in value):
        raise ValueError(f"a word is longer than the {LONGEST_WORD} bytes that a program can be given")
    return value


def thresholds(value: dict[str, float]) -> dict[str, float]:
    """Limits of ``provcheck serve`` (--limit NAME=N). Raises ValueError, with all that is wrong."""
    usual: dict[str, float] = asdict(Limits())
    wrong = [
        f"there is no threshold {name!r} (there are {', '.join(usual)})"
        for name in value
        if name not in usual
    ]
    wrong += [f"{name}={n!r} is no number above 0" for name, n in value.items() if not 0 < n < 1e6]
    whole = usual | value
    wrong += [
        f"{worse}={whole[worse]:g} lies {side} {odd}={whole[odd]:g}: what fails would not even be a warning"
        for worse, odd, side, crossed in (
            ("speed_fail", "speed_warn", "above", whole["speed_fail"] > whole["speed_warn"]),
            ("length_fail", "length_warn", "above", whole["length_fail"] > whole["length_warn"]),
            ("step_fail", "step_warn", "below", whole["step_fail"] < whole["step_warn"]),
        )
        if crossed
    ]
    if wrong:
        raise ValueError("; ".join(wrong))
    return value


Flags = Annotated[tuple[str, ...], AfterValidator(words)]
Variables = Annotated[dict[str, str], AfterValidator(variables)]
Thresholds = Annotated[dict[str, float], AfterValidator(thresholds)]


class Baseline(Spec):
    """What this service did when it was well: the figure that a regression is measured against."""

    decode_tok_s: float = Field(gt=0, lt=1e6)
    concurrency: StrictInt = Field(default=1, ge=1)
    source: str


class Candidate(Spec):
    """What is to be tried instead. It never becomes the service unless it proves to be better.

    ``environment`` adds to the service's own, and wins. ``thresholds`` as in the service, which they add to.
    ``beats``: how many times the decode speed of what runs it must reach; without it, more than two readings of one
    service differ by. ``mode``: "beside" what runs, or "swap" (what runs is stopped meanwhile); "auto": beside
    where there is room.
    """

    engine: Engine
    profile: str
    drafter: Model | None = None
    flags: Flags = ()
    environment: Variables = Field(default_factory=dict)
    thresholds: Thresholds = Field(default_factory=dict)
    beats: float | None = Field(default=None, gt=0, lt=100)
    mode: Literal["auto", "beside", "swap"] = "auto"


class Found(Spec):
    """A service that somebody set up by hand, as ``provision init`` found it; kpro compares it and changes nothing.

    ``command`` are the words of the engine's process, secrets masked; ``environment`` the names of its variables;
    ``engine`` the folder of its Python environment; ``model`` the folder of its model files.
    """

    unit: str
    command: tuple[str, ...]
    environment: tuple[str, ...] = ()
    engine: str | None = None
    model: str | None = None


class Service(Spec):
    """One LLM service of a guest; its unit is ``kpro-<name>.service``, or the one that was ``found``.

    ``drain_seconds``: how long requests that are under way may take before the service is stopped for another
    profile. ``thresholds``: limits of ``provcheck serve`` by name, where its usual ones do not fit. ``silences``:
    findings of its gates that are known to be bad. ``migration``: what moving it to another host needs to know.
    """

    name: Name
    engine: Engine
    model: Model
    drafter: Model | None = None
    profile: str = "plain"
    flags: Flags = ()
    environment: Variables = Field(default_factory=dict)
    listen: Address = "127.0.0.1"
    port: Port = 8000
    api_key_file: LocalPath | None = None
    ready_seconds: StrictInt = Field(default=900, ge=1)
    drain_seconds: StrictInt = Field(default=30, ge=0, le=3600)
    thresholds: Thresholds = Field(default_factory=dict)
    silences: tuple[Silence, ...] = ()
    replay: LocalPath | None = None
    baseline: Baseline | None = None
    candidate: Candidate | None = None
    found: Found | None = None
    migration: Migration | None = None

    @property
    def unit(self) -> str:
        return self.found.unit if self.found else f"kpro-{self.name}.service"

    @property
    def loopback(self) -> bool:
        return ipaddress.ip_address(self.listen).is_loopback

    @property
    def candidate_port(self) -> int:
        """Where the candidate answers on loopback while it is being judged: ten thousand above the service
        (8000 -> 18000), below it where that is no port."""
        return self.port + 10000 if self.port <= 55535 else self.port - 10000

    @model_validator(mode="after")
    def _coherent(self) -> Service:
        refuse("Service", self._wrong())
        return self

    def _wrong(self) -> Iterator[tuple[Where, str]]:
        if self.candidate and len(self.name) > LONGEST_WITH_TRIAL:
            yield ("name",), f"{self.name!r} is too long: with a candidate at most 53 letters"
        if not self.loopback and self.api_key_file is None and self.found is None:
            yield (
                ("api_key_file",),
                f"is missing: listen={self.listen} can be reached from outside, and whoever reaches "
                "it could use the service; name a file with a key, or listen on 127.0.0.1",
            )

    def promoted(self) -> Service | None:
        """The service with its candidate in place: other engine, profile, drafter and flags, same model and address."""
        if self.candidate is None:
            return None
        return self.model_copy(
            update={
                "engine": self.candidate.engine,
                "profile": self.candidate.profile,
                "drafter": self.candidate.drafter,
                "flags": self.candidate.flags,
                "environment": self.environment | self.candidate.environment,
                "thresholds": self.thresholds | self.candidate.thresholds,
                "candidate": None,
            }
        )

    def on_loopback(self) -> Service | None:
        """The same profile as a service of its own on loopback, where it is tried; None where the name is too long
        for one."""
        if len(self.name) > LONGEST_WITH_TRIAL:
            return None
        return self.model_copy(
            update={
                "name": f"{self.name}-candidate",
                "listen": "127.0.0.1",
                "port": self.candidate_port,
                "candidate": None,
            }
        )

    def trial(self) -> Service | None:
        """The candidate as a service of its own, on loopback."""
        promoted = self.promoted()
        return promoted.on_loopback() if promoted else None
