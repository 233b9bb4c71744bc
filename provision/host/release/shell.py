"""The words of a file that a shell reads (POSIX, 2.2 Quoting and 2.3 Token Recognition), character by character. Pure.

Every character that the shell would hand on knows where it stands in the file. What is taken out of a value is such
characters and nothing else: quotes, escapes and line ends that belong to the shell stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_NAME = re.compile(r"[A-Za-z_]\w*\+?=")
_ENDS = " \t\n;&|()<>"


@dataclass(frozen=True)
class Char:
    """A character of a value, and where its spelling begins and ends in the file. ``live``: the shell puts something in
    its place (a ``$`` or a backtick that is not quoted away); ``nested``: it stands in a command whose output that is.
    """

    text: str
    start: int
    end: int
    live: bool = False
    nested: bool = False


@dataclass(frozen=True)
class Word:
    """A word of the file. ``name`` is the variable that it assigns to, None when it assigns to none; ``chars`` then
    are those of the value alone. ``adds``: it is put behind what the variable has already (``+=``)."""

    name: str | None
    chars: tuple[Char, ...]
    adds: bool = False


def plain(text: str) -> tuple[Char, ...]:
    """A text that no shell reads."""
    return tuple(Char(character, at, at + 1) for at, character in enumerate(text))


def words(text: str) -> Iterator[Word]:
    """All words, comments left out. What is nested (command substitution, here documents) is taken as words too."""
    at = 0
    while at < len(text):
        if text[at] in _ENDS or text[at] == "\r":
            at += 1
        elif text.startswith("\\\n", at):
            at += 2
        elif text[at] == "#":
            at = _line_end(text, at)
        else:
            name = _NAME.match(text, at)
            chars, at = _word(text, name.end() if name else at)
            yield Word(name[0].rstrip("+=") if name else None, chars, bool(name and name[0].endswith("+=")))


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _word(text: str, at: int) -> tuple[tuple[Char, ...], int]:
    chars: list[Char] = []
    quote = ""
    while at < len(text):
        one = text[at]
        if one == "\\" and quote != "'" and at + 1 < len(text):
            following = text[at + 1]
            if following == "\n":
                at += 2
            elif quote and following not in '$`"\\':
                chars.append(Char(one, at, at + 1))
                at += 1
            else:
                chars.append(Char(following, at, at + 2))
                at += 2
            continue
        live = quote != "'" and one in "$`"
        end = _nested_end(text, at, quote) if live else 0
        if end:
            inside = text[at + 1] != "{"
            chars += [
                Char(text[spot], spot, spot + 1, spot == at, inside and spot != at) for spot in range(at, end)
            ]
            at = end
            continue
        if one in ("'", '"') and quote in ("", one):
            quote = "" if quote else one
        elif not quote and one in _ENDS:
            break
        else:
            chars.append(Char(one, at, at + 1, live))
        at += 1
    return tuple(chars), at


def _nested_end(text: str, at: int, quote: str) -> int:
    """Where ``${…}``, and within quotes ``$(…)`` or a pair of backticks, ends; 0 where none begins here or it has no
    end."""
    opening = text[at : at + 2]
    if text[at] == "`":
        return text.find("`", at + 1) + 1 if quote else 0
    if opening != "${" and not (opening == "$(" and quote):
        return 0
    closing = "}" if opening == "${" else ")"
    depth = 0
    for spot in range(at + 1, len(text)):
        depth += (text[spot] == opening[1]) - (text[spot] == closing)
        if depth == 0:
            return spot + 1
    return 0


def text_of(chars: Sequence[Char]) -> str:
    return "".join(char.text for char in chars)


def without(text: str, gone: Sequence[Char]) -> str:
    """The file without these characters."""
    kept, at = [], 0
    for char in sorted(gone, key=lambda char: char.start):
        kept.append(text[at : char.start])
        at = char.end
    return "".join(kept) + text[at:]


def line_of(text: str, char: Char) -> int:
    return text.count("\n", 0, char.start) + 1
