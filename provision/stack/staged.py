"""The words of a unit and the variables of its environment file, read back from the very text that is staged. Pure.

What is checked before anything stops is what would be started, not what somebody meant to write.
"""

from __future__ import annotations

import re

_WORD = re.compile(r'"((?:[^"\\]|\\.)*)"|([^ ]+)')
_ESCAPE = re.compile(r"\\(x[0-9a-f]{2}|.)")
_ESCAPES = {"n": "\n", "\\": "\\", '"': '"'}


def command_of(unit: str) -> tuple[str, ...]:
    """The argv of ``ExecStart=``; the inverse of how ``desired`` writes it. Raises ValueError when there is none."""
    lines = [line.removeprefix("ExecStart=") for line in unit.split("\n") if line.startswith("ExecStart=")]
    if len(lines) != 1 or not lines[0].strip(" "):
        raise ValueError(f"the staged unit has {len(lines)} lines ExecStart=, and one starts the engine")
    return tuple(_word(match) for match in _WORD.finditer(lines[0]))


def _word(match: re.Match[str]) -> str:
    text = match[2] if match[1] is None else _ESCAPE.sub(_unescaped, match[1])
    return text.replace("%%", "%").replace("$$", "$")


def _unescaped(one: re.Match[str]) -> str:
    return chr(int(one[1][1:], 16)) if len(one[1]) > 1 else _ESCAPES.get(one[1], one[0])


def variables_of(environment: str) -> dict[str, str]:
    """The assignments of the environment file."""
    pairs = re.findall(r'^([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\]|\\.)*)"$', environment, re.MULTILINE)
    return {name: re.sub(r"\\(.)", r"\1", value) for name, value in pairs}
