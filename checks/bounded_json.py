"""JSON from outside, read with bounds: size, nesting, no NaN, no infinity, no key twice."""

from __future__ import annotations

import json
import math
import stat
from pathlib import Path
from typing import Any, NoReturn

MAX_DEPTH = 24
"""Model configurations nest four or five levels; more is damage or an attack on the parser."""


MAX_DIGITS = 40


class BadJson(ValueError):
    """The text is no JSON object that can be trusted; the message names the file and the reason."""


def read_object(path: Path, limit: int) -> dict[str, Any]:
    """The JSON object in ``path`` of at most ``limit`` bytes.

    Raises BadJson, or OSError when it cannot be read.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise BadJson(f"{path.name} is not a regular file")
    with path.open("rb") as stream:
        raw = stream.read(limit + 1)
    if len(raw) > limit:
        raise BadJson(f"{path.name} is larger than {limit} bytes, far beyond any real file of that name")
    return parse_object(raw, what=path.name)


def parse_object(raw: bytes, *, what: str) -> dict[str, Any]:
    """The JSON object in ``raw``. Raises BadJson, whose text starts with ``what``."""
    if raw.count(b"[") + raw.count(b"{") > 1000 + len(raw) // 16:
        raise BadJson(f"{what} consists of brackets rather than of content")
    try:
        value = json.loads(
            raw.decode("utf-8"),
            parse_constant=_not_finite,
            parse_float=_finite,
            parse_int=_short,
            object_pairs_hook=_without_duplicates,
        )
    except RecursionError:
        raise BadJson(f"{what} nests too deeply") from None
    except UnicodeDecodeError:
        raise BadJson(f"{what} is not UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise BadJson(
            f"{what} is not JSON (line {error.lineno}, column {error.colno}: {error.msg})"
        ) from None
    except ValueError as error:
        raise BadJson(f"{what} is not acceptable JSON ({str(error)[:120]})") from None
    if not isinstance(value, dict):
        raise BadJson(f"{what} is not a JSON object")
    if _deeper_than(value, MAX_DEPTH):
        raise BadJson(f"{what} nests deeper than {MAX_DEPTH} levels")
    return value


def _not_finite(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is beyond any number")
    return number


def _short(text: str) -> int:
    """Turning a long text into a number takes time that grows with its square."""
    if len(text) > MAX_DIGITS:
        raise ValueError(f"a number of {len(text)} digits")
    return int(text)


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {twice[:60]!r} stands there twice")
    return result


def _deeper_than(value: object, limit: int) -> bool:
    level: list[object] = [value]
    for _ in range(limit):
        level = [
            child
            for parent in level
            if isinstance(parent, (dict, list))
            for child in (parent.values() if isinstance(parent, dict) else parent)
            if isinstance(child, (dict, list))
        ]
        if not level:
            return False
    return True
