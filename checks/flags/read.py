"""Arguments to options as argparse reads them, keeping every problem where argparse stops at the first.

Both engines use argparse with abbreviations allowed; vLLM's parser also takes underscores in names, dotted
keys of JSON options and ``-O3`` (``FlexibleArgumentParser.parse_args``, vllm/utils/argparse_utils.py).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from checks.flags.table import Option, Table

NEGATIVE = re.compile(r"^-(?:\d+(?:_\d+)*(?:\.\d+(?:_\d+)*)?|\.\d+(?:_\d+)*)$")


@dataclass(frozen=True)
class Given:
    """One option as it was given. ``path``: keys of a dotted spelling (``--speculative-config.method``)."""

    option: Option
    spelled: str
    values: tuple[str, ...]
    position: int
    path: tuple[str, ...] = ()
    written: tuple[str, ...] = ()


@dataclass
class Reading:
    """What was understood and what was not. ``unknown``: name and words; ``ambiguous``: these and what it fits."""

    given: list[Given] = field(default_factory=list)
    unknown: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    ambiguous: list[tuple[str, tuple[str, ...], str]] = field(default_factory=list)
    abbreviated: list[tuple[str, str]] = field(default_factory=list)
    malformed: list[str] = field(default_factory=list)
    positionals: list[str] = field(default_factory=list)

    def values_of(self, *names: str) -> tuple[str, ...] | None:
        """The values of the last whole occurrence of an option; None when it was not given."""
        for one in reversed(self.given):
            if not one.path and set(names) & set(one.option.names):
                return one.values
        return None

    def has(self, *names: str) -> bool:
        return any(set(names) & set(one.option.names) for one in self.given)


def read(table: Table, arguments: Sequence[str]) -> Reading:
    """Reads arguments against a table; judges no value."""
    words = _normalised(arguments) if table.engine == "vllm" else list(arguments)
    out = Reading()
    at = 0
    while at < len(words):
        word = words[at]
        if word == "--":
            out.positionals += words[at + 1 :]
            break
        if not _is_option(table, word):
            out.positionals.append(word)
            at += 1
            continue
        at = _option(table, words, at, out)
    return out


def _normalised(arguments: Sequence[str]) -> list[str]:
    """vLLM's own rewriting before argparse sees the words."""
    words: list[str] = []
    for word in arguments:
        if word.startswith("--"):
            name, separator, value = word.partition("=")
            head, dot, keys = name.partition(".")
            words.append(head.replace("_", "-") + dot + keys + separator + value)
        elif word.startswith("-O") and word != "-O":
            words += ["--optimization-level", word[3:] if word[2] == "=" else word[2:]]
        else:
            words.append("--optimization-level" if word == "-O" else word)
    return words


def _is_option(table: Table, word: str) -> bool:
    if not word.startswith("-") or word == "-":
        return False
    if word in table.options or word.partition("=")[0] in table.options:
        return True
    if NEGATIVE.match(word):
        return False
    return " " not in word or (word.startswith("--") and "=" in word)


def _option(table: Table, words: list[str], at: int, out: Reading) -> int:
    """Consumes one option and its values; returns the next position."""
    word = words[at]
    name, separator, inline = word.partition("=") if word not in table.options else (word, "", "")
    head, _, keys = name.partition(".") if table.engine == "vllm" and name.startswith("-") else (name, "", "")
    option, several = _lookup(table, head, out)
    if option is None:
        end = at + 1 + (0 if separator else _values(table, words, at + 1))
        if several:
            out.ambiguous.append((head, tuple(words[at:end]), several))
        else:
            out.unknown.append((head if keys else name, tuple(words[at:end])))
        return end
    if keys:
        return _dotted(words, at, option, name, separator, inline, out)
    available = _values(table, words, at + 1)
    values: tuple[str, ...] = (inline,)
    used = 0
    if not separator:
        used = _wanted(option, available)
        values = tuple(words[at + 1 : at + 1 + used])
    problem = _count_problem(option, head, values, inline=bool(separator))
    if problem:
        out.malformed.append(problem)
    else:
        out.given.append(Given(option, head, values, at, (), tuple(words[at : at + 1 + used])))
    return at + 1 + used


def _lookup(table: Table, name: str, out: Reading) -> tuple[Option | None, str]:
    """Exact, or the one option that starts so (noted); else None, with the options an ambiguous name fits."""
    if name in table.options:
        return table.options[name], ""
    if not name.startswith("--") or len(name) < 3:
        return None, ""
    spellings = sorted(spelled for spelled in table.options if spelled.startswith(name))
    if len(spellings) == 1:
        out.abbreviated.append((name, spellings[0]))
        return table.options[spellings[0]], ""
    return None, ", ".join(spellings[:4]) + (" …" if len(spellings) > 4 else "")


def _values(table: Table, words: list[str], start: int) -> int:
    """How many words from ``start`` on are values, not options."""
    end = start
    while end < len(words) and words[end] != "--" and not _is_option(table, words[end]):
        end += 1
    return end - start


def _wanted(option: Option, available: int) -> int:
    if option.nargs in ("+", "*"):
        return available
    if option.nargs == "?":
        return min(1, available)
    return min(available, 1 if option.nargs is None else int(option.nargs))


def _count_problem(option: Option, spelled: str, values: tuple[str, ...], *, inline: bool) -> str | None:
    if option.nargs == 0:
        return f"{spelled} takes no value, yet '={values[0]}' is attached" if inline else None
    if option.nargs in ("*", "?"):
        return None
    wanted = 1 if option.nargs in (None, "+") else int(option.nargs)
    exact = option.nargs != "+" and len(values) != wanted
    if exact or len(values) < wanted:
        needs = "a value" if wanted == 1 else f"{wanted} values"
        return f"{spelled} needs {needs} and has {len(values) or 'none'}"
    return None


def _dotted(
    words: list[str], at: int, option: Option, name: str, separator: str, inline: str, out: Reading
) -> int:
    """``--json-option.key value``: vLLM takes the next word whatever it looks like."""
    used = 0 if separator else 1
    if not separator and at + 1 >= len(words):
        out.malformed.append(f"{name} needs a value and has none")
        return at + 1
    value = inline if separator else words[at + 1]
    path = tuple(name.rstrip("+").split(".")[1:])
    if name.endswith("+"):
        path = (*path, "+")
    written = tuple(words[at : at + 1 + used])
    out.given.append(Given(option, name.partition(".")[0], (value,), at, path, written))
    return at + 1 + used
