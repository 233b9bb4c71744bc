"""``<vmid>.conf``, read as Proxmox VE reads it: PVE::LXC::Config::parse_pct_config (pve-container 94f5585) and
PVE::JSONSchema (pve-common f665029), with their words for what they refuse. Pure.

Everything before the first section is the current configuration; ``[pve:pending]`` waits for the next start;
``[name]`` is a snapshot. ``#`` makes a line a part of the description, anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from provision.guest.proxmox.schema import Field, field_of, raw_problem, split_list

PENDING = "pve:pending"

Kind = Literal["blank", "section", "comment", "raw", "description", "state", "delete", "option", "unread"]

_A = re.ASCII
_BLANK = re.compile(r"\s*", _A)
_PENDING = re.compile(r"\[pve:pending\]\s*", _A | re.I)
_SECTION = re.compile(r"\[([a-z][a-z0-9_\-]+)\]\s*", _A | re.I)
_RAW = re.compile(r"(lxc\.[a-z0-9_\-.]+)(?::|\s*=)\s*(.*?)\s*", _A)
_DESCRIPTION = re.compile(r"description:\s*(.*\S)\s*", _A)
_STATE = re.compile(r"snapstate:\s*(prepare|delete)\s*$", _A)
_DELETE = re.compile(r"delete:\s*(.*\S)\s*", _A)
_OPTION = re.compile(r"([a-z][a-z_]*[0-9]*):\s*(.+?)\s*", _A)
_PART = re.compile(r"([^=]+)=(.+)", _A)

_TRUE, _FALSE = re.compile("1|on|yes|true", re.I), re.compile("0|off|no|false", re.I)


@dataclass(frozen=True)
class Line:
    """A line as it stands in the file, and what Proxmox makes of it. ``section`` "" is the current configuration.
    ``problem``: why Proxmox does not take it, in its words."""

    number: int
    text: str
    section: str
    kind: Kind
    key: str = ""
    value: str = ""
    problem: str | None = None


@dataclass(frozen=True)
class Conf:
    """A configuration file, line by line."""

    lines: tuple[Line, ...]

    @cached_property
    def boundary(self) -> int:
        """The index of the first section's line: what is put there or later is no current configuration."""
        return next((at for at, line in enumerate(self.lines) if line.kind == "section"), len(self.lines))

    @property
    def sections(self) -> tuple[str, ...]:
        """Names of the sections after the current one, as often as they stand there."""
        return tuple(line.key for line in self.lines if line.kind == "section")

    def of(self, kind: Kind, section: str = "") -> tuple[Line, ...]:
        return tuple(line for line in self.lines if line.kind == kind and line.section == section)

    def of_kind(self, kind: Kind) -> tuple[Line, ...]:
        """In all sections."""
        return tuple(line for line in self.lines if line.kind == kind)

    def options(self, section: str = "") -> dict[str, Line]:
        """The line that counts for each key: the last one."""
        return {line.key: line for line in self.of("option", section)}

    def value(self, key: str, section: str = "") -> str | None:
        line = self.options(section).get(key)
        return None if line is None else line.value

    def is_true(self, key: str) -> bool:
        return is_true(self.value(key) or "")

    @cached_property
    def deleted(self) -> frozenset[str]:
        """Keys that the next start removes: what the last of the lines says."""
        words = [line.value for line in self.of("delete", PENDING)][-1:]
        return frozenset(name.removeprefix("!") for name in split_list(" ".join(words)))

    def effective(self) -> dict[str, Line]:
        """The options that the next start works with: what is pending has replaced what is current."""
        found = self.options() | self.options(PENDING)
        for key in self.deleted - set(self.options(PENDING)):
            found.pop(key, None)
        return found


def is_true(value: str) -> bool:
    return _TRUE.fullmatch(value) is not None


def parse(text: str) -> Conf:
    """Reads a file. Nothing is refused here: what Proxmox does not take is a line with a problem."""
    lines: list[Line] = []
    section = ""
    rows = text.split("\n")
    if rows[-1] == "":
        rows.pop()
    for number, row in enumerate(rows, 1):
        line = _line(number, row, section)
        if line.kind == "section":
            section = line.key
        lines.append(line)
    return Conf(tuple(lines))


def _line(number: int, row: str, section: str) -> Line:
    def made(kind: Kind, key: str = "", value: str = "", problem: str | None = None) -> Line:
        return Line(number, row, section, kind, key, value, problem)

    if _BLANK.fullmatch(row):
        return made("blank")
    if _PENDING.fullmatch(row):
        return Line(number, row, PENDING, "section", PENDING)
    if found := _SECTION.fullmatch(row):
        return Line(number, row, found[1], "section", found[1])
    if row.startswith("#"):
        return made("comment", value=row[1:])
    if found := _RAW.fullmatch(row):
        return made("raw", found[1], found[2], raw_problem(found[1], row))
    if found := _DESCRIPTION.fullmatch(row):
        return made("description", "description", found[1])
    if found := _STATE.search(row):
        return made("state", "snapstate", found[1])
    if found := _DELETE.fullmatch(row):
        wrong = None if section == PENDING else "property 'delete' is only allowed in [pve:pending]"
        return made("delete", "delete", found[1], wrong)
    if found := _OPTION.fullmatch(row):
        key, value = found[1], found[2]
        problem = type_problem(key, value)
        return made(
            "option", key, value, problem and f"unable to parse value of '{key}' - {problem}".rstrip()
        )
    return made("unread", problem=f"unable to parse config: {row}")


def type_problem(key: str, value: str) -> str | None:
    """PVE::LXC::Config::check_type: what is wrong with an option's value; None when nothing is."""
    field = field_of(key)
    if field is None:
        return f"unknown setting '{key}'"
    if "\r" in value:
        return "property contains a line feed"
    match field.type:
        case "boolean":
            good = _TRUE.fullmatch(value) or _FALSE.fullmatch(value)
        case "integer":
            good = re.fullmatch("[0-9]+", value)
        case "number":
            good = re.fullmatch(r"[0-9]+(\.[0-9]+)?", value)
        case _:
            if field.parts is not None:
                return properties(value, field.parts)[1]
            return field.check(value) if field.check else None
    return None if good else f"type check ('{field.type}') failed - got '{value}'"


def properties(text: str, fields: Mapping[str, Field]) -> tuple[dict[str, str], str | None]:
    """A property string (PVE::JSONSchema::parse_property_string): its parts, and what is wrong with it."""
    found: dict[str, str] = {}
    default = next((name for name, field in fields.items() if field.default_key), None)
    bare = False
    for part in text.split(","):
        if _BLANK.fullmatch(part):
            continue
        if pair := _PART.fullmatch(part):
            key, value = pair[1], pair[2]
            if key in found:
                return found, f"duplicate key in comma-separated list property: {key}"
            found[key] = _boolean(value) if key in fields and fields[key].type == "boolean" else value
        elif "=" in part:
            return found, "missing key in comma-separated list property"
        elif default is None:
            return found, "value without key, but schema does not define a default key"
        elif bare or default in found:
            return found, f"duplicate key in comma-separated list property: {default}"
        else:
            found[default], bare = part, True
    wrong = [f"{name}: {problem}" for name, problem in sorted(_problems(found, fields).items())]
    return found, f"format error {'; '.join(wrong)}" if wrong else None


def _boolean(value: str) -> str:
    return "1" if _TRUE.fullmatch(value) else "0" if _FALSE.fullmatch(value) else value


def _problems(found: Mapping[str, str], fields: Mapping[str, Field]) -> dict[str, str]:
    problems = {
        name: "property is missing and it is not optional"
        for name, field in fields.items()
        if not field.optional and name not in found
    }
    for name, value in found.items():
        if name not in fields:
            problems[name] = (
                "property is not defined in schema and the schema does not allow additional properties"
            )
        elif problem := value_problem(fields[name], value):
            problems[name] = problem
    return problems


def value_problem(field: Field, value: str) -> str | None:
    """PVE::JSONSchema::check_prop on one part: type, format, pattern, length, limits, choices."""
    number = re.fullmatch(r"[+-]?([0-9]+\.[0-9]+|[0-9]+\.|\.[0-9]+|[0-9]+)([eE][+-]?[0-9]+)?", value)
    good = {
        "boolean": value in ("0", "1"),
        "integer": re.fullmatch("[+-]?[0-9]+", value) is not None,
        "number": number is not None,
        "string": True,
    }[field.type]
    if not good:
        return f"type check ('{field.type}') failed - got '{value}'"
    if field.check and (problem := field.check(value)):
        return f"invalid format - {problem}"
    if field.pattern and re.fullmatch(field.pattern, value, _A) is None:
        return "value does not match the regex pattern"
    return limit_problem(field, value)


def limit_problem(field: Field, value: str) -> str | None:
    """The limits of a value whose type is right: those of a plain key are not looked at when a file is read."""
    if field.longest is not None and len(value) > field.longest:
        return f"value may only be {field.longest} characters long"
    if field.high is not None and float(value) > field.high:
        return f"value must have a maximum value of {field.high}"
    if field.low is not None and float(value) < field.low:
        return f"value must have a minimum value of {field.low}"
    if field.choices and value not in field.choices:
        return f"value '{value}' does not have a value in the enumeration '{', '.join(field.choices)}'"
    return None
