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
from pathlib import Path
from types import FrameType
from typing import Any

from pydantic import ValidationError

from provision.inventory import words
from provision.inventory.reading import Built, Reading
from provision.inventory.revisions import commit_meant
from provision.inventory.texts import told
from provision.spec import Fleet, Spec
from provision.spec_base import watcher


def read(path: Path) -> Reading:
    """Runs the file. What is wrong in it is in ``reasons``: nothing is raised for it, nothing connected."""
    reading = Reading(path, _shown(path))
    try:
        source = reading.source = path.read_text(encoding="utf-8")
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
        failure = words.failure(error, reading)
    finally:
        watcher.reset(token)
    reading.names = {name: value for name, value in namespace.items() if not name.startswith("_")}
    reading.reasons += _hollow_reasons(reading, namespace)
    if failure and not reading.reasons:
        reading.reasons.append(failure)
    reading.reasons += words.lists(reading, source)
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
        plain = _plain(row.given, reading)
        try:
            token = watcher.set(None)
            try:
                type(row.spec)(**plain)
            finally:
                watcher.reset(token)
        except ValidationError as error:
            for line in error.errors(include_url=False):
                where, text = told(type(row.spec), line)
                text += commit_meant(plain, where)
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
