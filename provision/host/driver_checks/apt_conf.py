"""apt's configuration files, as far as lists and values go (apt.conf(5)). Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from checks.snapshot import Snapshot

FOLDER = "/etc/apt/apt.conf.d"

_TOKEN = re.compile(
    r"(?P<skip>\s+|//[^\n]*|/\*.*?\*/|#(?!clear|include)[^\n]*)|(?P<text>\"[^\"]*\")|(?P<mark>[{};])|(?P<word>[^\s{};\"]+)",
    re.DOTALL,
)


def read(texts: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The values of each option, lower case, in the order of the files: a list keeps all, and of a single value the
    last counts. ``#clear`` empties an option and what is below it."""
    found: dict[str, tuple[str, ...]] = {}
    for text in texts:
        _file(text, found)
    return found


def _file(text: str, found: dict[str, tuple[str, ...]]) -> None:
    scopes: list[str] = []
    words: list[str] = []
    for match in _TOKEN.finditer(text):
        if match["skip"] is not None:
            continue
        if match["mark"] is None:
            words.append(match["text"] or match["word"])
        elif match["mark"] == "{":
            scopes.append(words[0] if words else "")
            words = []
        else:
            _statement(scopes, words, found)
            words = []
            if match["mark"] == "}" and scopes:
                scopes.pop()


def _statement(scopes: list[str], words: list[str], found: dict[str, tuple[str, ...]]) -> None:
    if not words:
        return
    if words[0] == "#clear":
        for name in words[1:]:
            key = name.lower()
            for other in [other for other in found if other == key or other.startswith(f"{key}::")]:
                del found[other]
        return
    if words[0].startswith('"'):
        key, value = "::".join(scopes).lower(), words[0]
    else:
        key, value = "::".join([*scopes, words[0]]).lower(), words[1] if len(words) > 1 else '""'
    found[key.removesuffix("::")] = (*found.get(key.removesuffix("::"), ()), value.strip('"'))


def of(snapshot: Snapshot) -> dict[str, tuple[str, ...]]:
    """The machine's own configuration: the files of apt.conf.d in the order of their names, those that apt reads."""
    paths = sorted(path for path in snapshot.paths("file") if path.startswith(f"{FOLDER}/"))
    taken = [
        path for path in paths if re.fullmatch(r"[A-Za-z0-9_-]+(\.conf)?", path.removeprefix(f"{FOLDER}/"))
    ]
    return read(snapshot.text(path) or "" for path in taken)
