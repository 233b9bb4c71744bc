"""The thin environment of a tree: programs that run an interpreter of the guest on folders of the guest."""

from __future__ import annotations

import json
import shlex

from pyinfra.api.host import Host

from provision.acts import shell
from provision.acts.voice import Voice
from provision.run.errors import ActFailed
from provision.run.journal import now
from provision.stack.engine import tree
from provision.stack.engine.desired import DesiredEngine, Tree

_IMPORT = """
# Nothing is written into the tree: it may be the machine's own, and others use it.
export PYTHONDONTWRITEBYTECODE=1 HOME=/nonexistent
cd / && {python} -c 'import os, sys, {module}
print(os.path.realpath({module}.__file__ or next(iter({module}.__path__))))'
"""
_METADATA = """
set -u
site={site}
mkdir -p -- "$site" || exit 1
for folder in {folders}; do
  for info in "$folder"/{distribution}-[0-9]*.dist-info; do
    [ ! -d "$info" ] || {{ ln -sfnT -- "$info" "$site/${{info##*/}}" || exit 1; }}
  done
done
"""


def make(host: Host, engine: DesiredEngine, of: Tree, say: Voice) -> None:
    """Writes the programs, sees the module imported from the tree, and only then the marker that makes it count.

    Every file is replaced in one step: what runs from this environment goes on. Raises ActFailed.
    """
    say(f"making {engine.path}")
    folder = shlex.quote(f"{engine.path}/bin")
    shell.run(host, f"umask 022; mkdir -p -- {folder}", f"making {folder}")
    shell.put(host, engine.python_path, tree.wrapper(of).encode(), mode="755")
    if engine.script is not None:
        name, module = engine.script
        shell.put(host, f"{engine.path}/bin/{name}", tree.wrapper(of, module).encode(), mode="755")
    # `provcheck flags` tells an environment's engine and version by the folders of its packages.
    links = _METADATA.format(
        site=shlex.quote(f"{engine.path}/lib/python{engine.python}/site-packages"),
        folders=shlex.join(of.folders),
        distribution=engine.distribution,
    )
    shell.run(host, links, f"linking the metadata of {engine.requirement}")
    before = _look(host, engine, of)
    script = _IMPORT.format(python=shlex.quote(engine.python_path), module=engine.module)
    said = shell.run(host, script, f"importing {engine.module} from {', '.join(of.folders)}")
    found = said.strip().splitlines()[-1:] or [""]
    real = shell.run(host, f"readlink -f -- {shlex.join(of.folders)}", "looking where the tree lies").split()
    if not found[0].startswith(tuple(f"{place}/" for place in real)):
        raise ActFailed(
            f"{engine.module} was imported from {found[0]!r}, which is none of {', '.join(of.folders)}: another one "
            "comes first; put the folder that holds the engine first in the inventory"
        )
    if _look(host, engine, of) != before:
        raise ActFailed(
            f"{', '.join(of.folders)} changed while it was looked at; run again when its copy is done"
        )
    marker = {
        "digest": engine.digest,
        "requirement": engine.requirement,
        "tree": before,
        "interpreter": of.interpreter,
        "folders": list(of.folders),
        "built": now(),
    }
    shell.put(host, engine.marker, f"{json.dumps(marker)}\n".encode(), mode="644")


def _look(host: Host, engine: DesiredEngine, of: Tree) -> str:
    return tree.parse(shell.run(host, tree.look(engine, of), f"looking at {', '.join(of.folders)}")).digest
