"""What came of reading an inventory file, and how its fields are called."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from provision.forms import Where
from provision.spec import Fleet, Machine, Spec

S = TypeVar("S", bound=Spec)


@dataclass(frozen=True)
class Built:
    """A spec that the file built: what it was given, and where."""

    spec: Spec
    given: dict[str, Any]
    line: int
    lines: dict[str, int]
    hollow: bool
    direct: bool


@dataclass
class Reading:
    """What came of a file: its public names, what it built, and the reasons why it cannot be used."""

    path: Path
    shown: str
    names: dict[str, Any] = field(default_factory=dict)
    built: dict[int, Built] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)
    source: str = ""
    """The text of the file."""

    def at(self, line: int) -> str:
        return f"{self.shown}:{line}"

    def is_hollow(self, value: Any) -> bool:
        """Whether a value is, or holds, a spec that could not be built."""
        if isinstance(value, Spec):
            here = self.built.get(id(value))
            return here is not None and here.hollow
        if isinstance(value, dict):
            return any(map(self.is_hollow, value.values()))
        return isinstance(value, list | tuple) and any(map(self.is_hollow, value))

    def members(self, spec: Spec, field: str, kind: type[S]) -> Iterator[tuple[int, S]]:
        """What was given to a spec as the list ``field``, as far as it is of that kind."""
        given = self.built[id(spec)].given.get(field)
        for index, member in enumerate(given if isinstance(given, list | tuple) else ()):
            if isinstance(member, kind):
                yield index, member

    def hollow_fleets(self) -> Iterator[Fleet]:
        """The fleets that were not built because one of their machines was not."""
        for here in self.built.values():
            inside = here.given.get("machines")
            if isinstance(here.spec, Fleet) and isinstance(inside, list | tuple) and self.is_hollow(inside):
                yield here.spec

    def line_of(self, spec: Spec, where: Where) -> int | None:
        """The line of the field ``where`` under ``spec``, or of the call that should hold it."""
        line = None
        value: Any = spec
        for part in where:
            here = self.built.get(id(value))
            if here is not None:
                line = here.lines.get(str(part), here.line)
                value = here.given.get(str(part))
            else:
                value = item(value, part)
        return line

    def say(self, spec: Spec, name: str, where: Where, text: str) -> str:
        """``machine.guests[0].services[1].port: text (inventories/kpro5.py:41)``."""
        line = self.line_of(spec, where)
        return f"{name}{dotted(where)}: {text}" + (f" ({self.at(line)})" if line else "")

    def name_of(self, spec: Spec) -> str:
        """How the file itself calls a spec: ``machine``, ``fleet.machines[2]``."""
        for name, value in self.names.items():
            if value is spec:
                return name
        for name, value in self.names.items():
            here = self.built.get(id(value))
            members = here.given.get("machines") if here else value
            if isinstance(members, list | tuple):
                for index, member in enumerate(members):
                    if member is spec:
                        return f"{name}.machines[{index}]" if here else f"{name}[{index}]"
        written = self.built[id(spec)].given.get("name") if id(spec) in self.built else None
        kind = type(spec).__name__.lower()
        return f"{kind} {written!r}: {kind}" if isinstance(written, str) else kind


def dotted(where: Where) -> str:
    """``("guests", 0, "port")`` as ``.guests[0].port``."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in where)


def item(value: Any, part: str | int) -> Any:
    """The member ``part`` of a list, dictionary or object; None when there is none."""
    if isinstance(value, list | tuple) and isinstance(part, int) and part < len(value):
        return value[part]
    if isinstance(value, dict):
        return value.get(part)
    return getattr(value, str(part), None)


def machines_of(reading: Reading) -> Iterator[tuple[str, Machine]]:
    """The machines that the file's public names show, each once, with the name the file has for it."""
    seen: set[int] = set()
    for value in reading.names.values():
        here = reading.built.get(id(value))
        inside = here.given.get("machines") if here and isinstance(value, Fleet) else (value,)
        for machine in inside if isinstance(inside, list | tuple) else ():
            if isinstance(machine, Machine) and id(machine) not in seen:
                seen.add(id(machine))
                yield reading.name_of(machine), machine
