"""Unit and environment file of a service, rendered: what it runs, under which variables, in which walls. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from provision.data import engines, hardening
from provision.data.around import Around
from provision.data.launch import Launch
from provision.spec import Guest, Service
from provision.templates import render


@dataclass(frozen=True)
class Rendered:
    """``digest`` names all of it. ``launch`` says what was chosen, what is still open, and what cannot be."""

    unit: str
    environment: str = field(repr=False)
    digest: str
    launch: Launch


def rendered(
    guest: Guest,
    service: Service,
    env_path: str,
    gate: Sequence[str],
    around: Around,
    key: str | None,
    also: Sequence[str],
) -> Rendered:
    """``also``: what else makes it another service (model files, a record). Raises ValueError for an engine that cannot
    be given a key in secret, UnknownEngine as engines.command does."""
    variables = dict(engines.environment(service, around))
    if key is not None:
        variable = engines.kind_of(service.engine.kind).key_variable
        if variable is None:
            raise ValueError(f"{service.engine.kind} has no way to be given a key in secret")
        variables[variable] = key
    environment = "".join(f"{name}={quoted(value)}\n" for name, value in sorted(variables.items()))
    text = render(
        "service.unit.j2",
        name=service.name,
        engine=f"{service.engine.kind} {service.engine.version}",
        gpus=len(guest.gpus),
        cache=engines.cache_folder(service, around).removeprefix("/var/cache/"),
        walls=hardening.lines(guest.suite, loopback=service.loopback),
        restart=hardening.restart(guest.suite),
        burst=hardening.BURST,
        interval=hardening.interval(service.ready_seconds),
        gate_seconds=hardening.GATE_SECONDS,
        gate=[unit_word(word) for word in gate],
        command=[unit_word(word) for word in engines.command(service, env_path, around)],
    )
    digest = hashlib.sha256("\0".join([text, environment, *also]).encode()).hexdigest()
    return Rendered(text.replace("@digest@", digest), environment, digest, engines.launched(service, around))


def quoted(value: str) -> str:
    """A value of a systemd environment file: double quotes, with backslash escapes for the four that need them."""
    return '"' + "".join(f"\\{char}" if char in '"\\`$' else char for char in value) + '"'


def unit_word(word: str) -> str:
    """One word of an ExecStart line: specifiers and variables off, quoted where systemd would split, and control
    characters by their number: a line of a unit ends at a carriage return too (systemd, read_line() of fileio.c;
    escapes: systemd.syntax(7)). Raises ValueError for a NUL, which no argument can hold."""
    if "\0" in word:
        raise ValueError("an argument holds a NUL byte: no program can be given it")
    word = word.replace("%", "%%").replace("$", "$$")
    if word and not any(char in " \"'\\;" or _control(char) for char in word):
        return word
    return (
        '"' + "".join(_ESCAPED.get(char) or (_hex(char) if _control(char) else char) for char in word) + '"'
    )


_ESCAPED = {"\\": "\\\\", '"': '\\"', "\n": "\\n"}


def _control(char: str) -> bool:
    return char < " " or char == "\x7f"


def _hex(char: str) -> str:
    return f"\\x{ord(char):02x}"
