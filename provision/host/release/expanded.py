"""What a shell makes of the words of a file that it reads, as far as the file itself says it (POSIX, 2.6.2). Pure.

Variables have the values that were assigned above; commands are not run. ``UNKNOWN`` stands where only the shell knows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from provision.host.release import shell
from provision.host.release.shell import Char, Word

UNKNOWN = "\ufffc"

_NAME = re.compile(r"[A-Za-z_]\w*")
_BRACED = re.compile(r"\{([A-Za-z_]\w*)(?:(:?[-+=?])(.*))?\}", re.DOTALL)


def words(text: str) -> Iterator[tuple[Word, str]]:
    """Every word, with what the shell makes of it."""
    variables: dict[str, str] = {}
    for word in shell.words(text):
        value = _expanded(word.chars, variables)
        if word.name is not None:
            before = variables.get(word.name, "") if word.adds else ""
            variables[word.name] = before + value
        yield word, value


def _expanded(chars: Sequence[Char], variables: dict[str, str]) -> str:
    found, at = [], 0
    while at < len(chars):
        if not chars[at].live:
            found.append(chars[at].text)
            at += 1
            continue
        rest = shell.text_of(chars[at + 1 :])
        name = _NAME.match(rest)
        end = _end(rest, chars[at].text)
        if chars[at].text == "$" and name is not None:
            found.append(variables.get(name[0], UNKNOWN))
            at += 1 + name.end()
        elif end == 0:
            found.append(chars[at].text)
            at += 1
        else:
            braced = _BRACED.fullmatch(rest[:end])
            found.append(_braced(braced, variables) if braced else UNKNOWN)
            at += 1 + end
    return "".join(found)


def _end(rest: str, opener: str) -> int:
    """How many characters behind the ``$`` or the backtick belong to it."""
    if opener == "`":
        return rest.find("`") + 1
    closing = {"{": "}", "(": ")"}.get(rest[:1])
    depth = 0
    for at, one in enumerate(rest):
        depth += (one == rest[0]) - (one == closing)
        if closing and depth == 0:
            return at + 1
    return 0


def _braced(match: re.Match[str], variables: dict[str, str]) -> str:
    """``${NAME}``, ``${NAME:-word}`` and its like."""
    value, does = variables.get(match[1]), (match[2] or "").lstrip(":")
    if not does:
        return UNKNOWN if value is None else value
    word = _expanded([Char(one, 0, 0, one == "$") for one in match[3].replace('"', "")], variables)
    there = bool(value) if match[2].startswith(":") else value is not None
    if does == "+":
        return word if there else ""
    if not there and does == "=":
        variables[match[1]] = word
    return str(value) if there else word
