"""Lists of modules to load: /etc/modules, modules-load.d(5), /etc/initramfs-tools/modules (initramfs-tools(7)).

One module a line, in the last with its parameters; ``#`` and ``;`` begin a comment. Loading vfio-pci alone binds
nothing: only a line with ids does.
"""

from __future__ import annotations

import re

from provision.host.release.target import (
    BINDERS,
    MARK,
    Holder,
    Target,
    ids_of,
    module,
    options_without,
    takes,
)

_LINE = re.compile(r"(\s*)([\w-]+)(\s[^\n]*?)?(\s*)")


def find(path: str, text: str) -> tuple[Holder, ...]:
    """The lines that give ids to vfio-pci."""
    return tuple(
        Holder(path, number, line, f"gives {value} to {line.split()[0]}", takes(value))
        for number, line in enumerate(text.split("\n"), 1)
        for value in _ids(line)
    )


def clean(text: str, target: Target) -> str:
    """The same text without the target's ids; the line as it was stays as a comment above."""
    return "\n".join(_cleaned(line, target) for line in text.split("\n"))


def _cleaned(line: str, target: Target) -> str:
    if not any(target.has_id(entry) for value in _ids(line) for entry in value.split(",")):
        return line
    said, mark, comment = line.partition("#")
    return f"{MARK}{line}\n" + options_without(said, target) + mark + comment


def _ids(line: str) -> list[str]:
    line = line.split("#")[0]
    match = _LINE.fullmatch(line)
    if match is None or module(match[2]) not in BINDERS:
        return []
    return ids_of(line)
