"""Reads one inventory file: runs it apart from everything else and reports all that is wrong in it.

Every spec that the file builds is watched. One that cannot be built stands in as a hollow object, so that the
file goes on and the other mistakes show too; the machine around it is then judged from what was written.
"""

from __future__ import annotations

import ast
import contextlib
import itertools
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

from pydantic import ValidationError

from provision.forms import Where
from provision.spec import Fleet, HostGroup, Machine, Spec, watcher
from provision.spec_texts import told

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
                value = _item(value, part)
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


def read(path: Path) -> Reading:
    """Runs the file. What is wrong in it is in ``reasons``: nothing is raised for it, nothing connected."""
    reading = Reading(path, _shown(path))
    try:
        source = path.read_text(encoding="utf-8")
        code = compile(source, str(path), "exec", dont_inherit=True)
    except SyntaxError as error:
        reading.reasons.append(f"{reading.at(error.lineno or 1)}: this is no Python: {error.msg}")
        return reading
    except (OSError, ValueError) as error:
        reading.reasons.append(f"{reading.shown}: cannot be read: {error}")
        return reading
    calls = _calls(source)
    namespace: dict[str, Any] = {"__file__": str(path), "__name__": "kpro_inventory"}
    token = watcher.set(_watch(reading, str(path), calls))
    failure = None
    try:
        with contextlib.redirect_stdout(sys.stderr), _cwd_on_path():
            exec(code, namespace)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - the file is the operator's: SystemExit is wrong in it too
        failure = _failure(error, reading)
    finally:
        watcher.reset(token)
    reading.names = {name: value for name, value in namespace.items() if not name.startswith("_")}
    reading.reasons += _hollow_reasons(reading, namespace)
    if failure and not reading.reasons:
        reading.reasons.append(failure)
    reading.reasons += _list_reasons(reading, source)
    return reading


def _shown(path: Path) -> str:
    with contextlib.suppress(ValueError):
        return str(path.resolve().relative_to(Path.cwd()))
    return str(path)


@contextlib.contextmanager
def _cwd_on_path() -> Iterator[None]:
    """pyinfra appends the working directory too: a file that imports its neighbour works in both."""
    before = list(sys.path)
    sys.path.append(str(Path.cwd()))
    try:
        yield
    finally:
        sys.path[:] = before


Span = tuple[int, int, int, int]


def _calls(source: str) -> dict[Span, dict[str, int]]:
    """The lines of the keywords of every call, by the place of the call."""
    return {
        (node.lineno, node.end_lineno or 0, node.col_offset, node.end_col_offset or 0): {
            keyword.arg: keyword.value.lineno for keyword in node.keywords if keyword.arg
        }
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
    }


def _watch(
    reading: Reading, filename: str, calls: dict[Span, dict[str, int]]
) -> Callable[[Spec, dict[str, Any], Callable[..., None]], None]:
    def build(spec: Spec, given: dict[str, Any], init: Callable[..., None]) -> None:
        line, lines, direct = _place(filename, calls)
        hollow = any(reading.is_hollow(value) for value in given.values())
        if not hollow:
            token = watcher.set(None)
            try:
                init(**given)
            except ValidationError:
                hollow = True
            finally:
                watcher.reset(token)
        reading.built[id(spec)] = Built(spec, given, line, lines, hollow, direct)

    return build


def _place(filename: str, calls: dict[Span, dict[str, int]]) -> tuple[int, dict[str, int], bool]:
    """Where the file builds what is being built: line, lines of its keywords, and whether the file itself
    does it or something that it calls."""
    frame: FrameType | None = sys._getframe(2)
    while frame and frame.f_code is not None and frame.f_code.co_name == "__init__":
        frame = frame.f_back
    direct = frame is not None and frame.f_code.co_filename == filename
    while frame and frame.f_code.co_filename != filename:
        frame = frame.f_back
    if frame is None:
        return 1, {}, False
    span = next(itertools.islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), (None,) * 4)
    start, end, column, end_column = span
    if start is None or end is None or column is None or end_column is None:
        return frame.f_lineno, {}, direct
    return start, calls.get((start, end, column, end_column), {}) if direct else {}, direct


def _plain(value: Any, reading: Reading) -> Any:
    """What was given, with every hollow spec as the dictionary that it was built from."""
    if isinstance(value, Spec):
        here = reading.built.get(id(value))
        return _plain(here.given, reading) if here and here.hollow else value
    if isinstance(value, dict):
        return {key: _plain(item, reading) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_plain(item, reading) for item in value)
    return value


def _hollow_reasons(reading: Reading, namespace: dict[str, Any]) -> list[str]:
    """What is wrong with the hollow specs, each told once, from the outermost one that holds it."""
    hollow = [row for row in reading.built.values() if row.hollow]
    held = {id(inner) for row in hollow if not isinstance(row.spec, Fleet) for inner in _specs(row.given)}
    reasons: list[str] = []
    shown = dict(reading.names)
    reading.names = {name: value for name, value in namespace.items() if not name.startswith("__")}
    for row in hollow:
        if id(row.spec) in held:
            continue
        if isinstance(row.spec, Fleet) and reading.is_hollow(row.given.get("machines")):
            continue
        name = reading.name_of(row.spec) if row.direct or not isinstance(row.spec, Fleet) else "inventory"
        try:
            token = watcher.set(None)
            try:
                type(row.spec)(**_plain(row.given, reading))
            finally:
                watcher.reset(token)
        except ValidationError as error:
            for line in error.errors(include_url=False):
                where, text = told(type(row.spec), line)
                reasons.append(reading.say(row.spec, name, where, text))
    reading.names = shown
    return reasons


def _specs(value: Any) -> Iterator[Spec]:
    """Every spec inside a value, at any depth of lists and dictionaries."""
    if isinstance(value, Spec):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _specs(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _specs(item)


def _item(value: Any, part: str | int) -> Any:
    if isinstance(value, list | tuple) and isinstance(part, int) and part < len(value):
        return value[part]
    if isinstance(value, dict):
        return value.get(part)
    return getattr(value, str(part), None)


def _failure(error: BaseException, reading: Reading) -> str:
    """A Python error in one line: file, line, what it said."""
    line, step = 1, error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename == str(reading.path):
            line = step.tb_lineno
        step = step.tb_next
    if isinstance(error, SystemExit):
        return f"{reading.at(line)}: the file ends the program (SystemExit): an inventory only describes"
    text = " ".join(str(error).split())
    if isinstance(error, TypeError) and "positional argument" in text and "__init__" in text:
        text = "a spec takes its fields by name: Machine(name='kpro5', …)"
    return f"{reading.at(line)}: {type(error).__name__}: {text}"


def _list_reasons(reading: Reading, source: str) -> list[str]:
    """pyinfra takes every public list or tuple of an inventory for hosts; only groups of specs are hosts."""
    lines = {
        node.id: node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    return [
        f"{name}: {_what(value)} at the top of the file: pyinfra would take {_example(value)} for hosts; "
        f"call it _{name}, or make a host group of it with HostGroup(…) ({reading.at(lines.get(name, 1))})"
        for name, value in reading.names.items()
        if isinstance(value, list | tuple) and not isinstance(value, HostGroup)
    ]


def _what(value: list[Any] | tuple[Any, ...]) -> str:
    kinds = {type(item).__name__ for item in value}
    of = (
        {"str": " of strings", "Machine": " of machines"}.get(next(iter(kinds)), "")
        if len(kinds) == 1
        else ""
    )
    return f"a {type(value).__name__}{of}"


def _example(value: list[Any] | tuple[Any, ...]) -> str:
    texts = [item for item in value if isinstance(item, str)]
    return ", ".join(map(repr, texts[:3])) if texts else "its members"


def machines_of(reading: Reading) -> Iterator[tuple[str, Machine]]:
    """The machines that the file's public names show, each once, with the name the file has for it."""
    seen: set[int] = set()
    for value in reading.names.values():
        inside = value.machines if isinstance(value, Fleet) else (value,)
        for machine in inside:
            if isinstance(machine, Machine) and id(machine) not in seen:
                seen.add(id(machine))
                yield reading.name_of(machine), machine
