"""An engine that lies in the guest as folders and an interpreter: how it is looked at, and what that look says. Pure.

Nothing of a tree is kpro's own and no lock holds it still, so its digest is taken where it lies: the RECORD of every
package in it, the sizes of the engine's own files, and the full version of the interpreter.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from packaging.version import InvalidVersion, Version

from provision.plan import Refusal
from provision.stack.engine.desired import DesiredEngine, Tree

_PYTHON = """\
if [ -x {program} ]; then
  said=$({program} -I -S -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>&1) && echo "python $said" ||
    echo "broken $(printf '%s' "$said" | tail -n 1)"
else echo absent {program}
fi
"""
_FOLDER = """\
if cd {folder} 2>/dev/null; then
  for info in {distribution}-[0-9]*.dist-info; do
    [ ! -f "$info/METADATA" ] || sed -n '/^$/q;s/^Version: /version /p' "$info/METADATA"
  done
  sum=$({{ find . -mindepth 2 -maxdepth 2 -path './*.dist-info/RECORD' -type f -exec sha256sum {{}} +
    [ ! -d ./{module} ] || find ./{module} -type f ! -name '*.pyc' -printf '%s %p\\n'
  }} | LC_ALL=C sort | sha256sum)
  echo "folder ${{sum%% *}}"
else echo absent {folder}
fi
"""


@dataclass(frozen=True)
class Seen:
    """What lies in the guest. ``python`` is the interpreter's full version; ``broken`` what it said instead."""

    python: str | None
    broken: str | None
    absent: tuple[str, ...]
    versions: tuple[str, ...]
    digest: str


def name(engine: DesiredEngine) -> str:
    """The look's name in a snapshot."""
    return f"tree-{engine.digest[:12]}"


def look(engine: DesiredEngine, tree: Tree) -> str:
    """The shell text that looks at it and changes nothing."""
    program = _quoted(tree.interpreter)
    parts = [_PYTHON.format(program=program)]
    for folder in tree.folders:
        parts.append(
            _FOLDER.format(folder=_quoted(folder), distribution=engine.distribution, module=engine.module)
        )
    return "".join(parts)


def parse(text: str) -> Seen:
    """Reads what ``look`` printed."""
    rows = [line.partition(" ")[::2] for line in text.splitlines()]

    def of(word: str) -> tuple[str, ...]:
        return tuple(rest for key, rest in rows if key == word)

    python, broken = of("python"), of("broken")
    whole = "\n".join([*python, *of("folder")])
    return Seen(
        python[0] if python else None,
        broken[0] if broken else None,
        of("absent"),
        of("version"),
        hashlib.sha256(whole.encode()).hexdigest(),
    )


def refusals(engine: DesiredEngine, tree: Tree, seen: Seen, where: str) -> Iterator[Refusal]:
    """Every reason why this tree cannot be the environment."""
    why = "a tree is used as it lies there; kpro installs nothing of it"
    for path in seen.absent:
        yield Refusal(
            f"{where}.{'interpreter' if path == tree.interpreter else 'folders'}",
            f"the guest has no {path}",
            why,
            "bind it into the guest (Mount in the inventory), or correct the path",
        )
    if seen.broken is not None:
        yield Refusal(
            f"{where}.interpreter",
            f"{tree.interpreter} does not run in the guest: {seen.broken}",
            "it needs the C library and the standard library that it was made for",
            "bind its standard library too, or take a guest suite whose glibc is as new as the one it was built with",
        )
    if seen.python is not None and seen.python.rpartition(".")[0] != engine.python:
        yield Refusal(
            f"{where}.python",
            f"{tree.interpreter} is Python {seen.python}, and the inventory says {engine.python}",
            "compiled modules of a tree fit one Python only",
            f"write python={seen.python.rpartition('.')[0]!r} if the tree was made for it, or name another interpreter",
        )
    folders_there = not any(folder in seen.absent for folder in tree.folders)
    if folders_there and not any(_is(version, engine.version) for version in seen.versions):
        found = (
            f"says it is {', '.join(seen.versions)}" if seen.versions else "does not say which version it is"
        )
        yield Refusal(
            f"{where}.version",
            f"the tree {found} (no {engine.distribution}-{engine.version}.dist-info in {', '.join(tree.folders)})",
            "flags, profiles and floors are those of the version that the inventory names",
            "correct the version, or make the tree with its package metadata (pip install --target)",
        )


def _is(found: str, wanted: str) -> bool:
    """The same release; a build of its own (0.20.1+cu130) counts."""
    try:
        return Version(found) == Version(wanted) or Version(found).public == wanted
    except InvalidVersion:
        return False


def wrapper(tree: Tree, module: str | None = None) -> str:
    """A program of the thin environment: the interpreter on the tree's folders, or one module of it."""
    path = _quoted(":".join(tree.folders))
    run = f" -m {module}" if module else ""
    return (
        "#!/bin/sh\n# Written by kpro: an interpreter and folders that lie in this guest; nothing is installed here.\n"
        f"export PYTHONPATH={path} PYTHONNOUSERSITE=1\n"
        f'exec {_quoted(tree.interpreter)}{run} "$@"\n'
    )


def _quoted(path: str) -> str:
    """As one word of a shell."""
    return "'" + path.replace("'", "'\\''") + "'"
