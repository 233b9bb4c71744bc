"""What was there before: originals, a manifest and an ``undo.sh`` on the machine, before the first change.

``/var/lib/kpro/manifest.json`` lists the changes, oldest first; ``originals/`` holds every file that was replaced, as
it was before kpro touched it for the first time; ``undo.sh`` puts all back without a controller.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from dataclasses import asdict, dataclass, replace
from io import BytesIO

from pyinfra.api.host import Host

from provision.host import transport
from provision.run.errors import ActFailed
from provision.templates import render

STATE = "/var/lib/kpro"
SCHEMA = "kpro-manifest/1"


@dataclass(frozen=True)
class Change:
    """One change: a ``file`` that was written (``original`` None: it was not there), or a ``container`` made."""

    kind: str
    run: str
    path: str = ""
    written: str = ""
    original: str | None = None
    mode: str | None = None
    owner: str | None = None
    id: str = ""
    folder: str = ""

    def is_about(self, other: Change) -> bool:
        return (self.kind, self.path, self.id) == (other.kind, other.path, other.id)


def parse(text: str) -> tuple[Change, ...]:
    """The changes of a manifest. Raises ValueError when it is none."""
    document = json.loads(text)
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise ValueError(f"it does not say schema {SCHEMA}")
    return tuple(Change(**change) for change in document["changes"])


def dump(changes: tuple[Change, ...]) -> str:
    return json.dumps({"schema": SCHEMA, "changes": [asdict(change) for change in changes]}, indent=1) + "\n"


def undo_script(changes: tuple[Change, ...]) -> str:
    return render("undo.sh.j2", changes=tuple(reversed(changes)), quote=shlex.quote)


def with_change(changes: tuple[Change, ...], new: Change) -> tuple[Change, ...]:
    """A second change to the same thing keeps the first one's original: the state before kpro is what counts."""
    if new.kind == "container":
        # What was there in an earlier container of this place is nobody's original any more.
        changes = tuple(old for old in changes if not old.path.startswith(f"{new.folder}/"))
    for index, old in enumerate(changes):
        if old.is_about(new):
            kept = replace(new, original=old.original, mode=old.mode, owner=old.owner)
            return (*changes[:index], kept, *changes[index + 1 :])
    return (*changes, new)


def before_container(host: Host, run: str, id: str, folder: str) -> None:
    """Notes that a container is about to be made. Raises ActFailed."""
    _note(host, Change("container", run, id=id, folder=folder))


def before_file(host: Host, run: str, path: str, data: bytes) -> None:
    """Keeps a file as it is before ``data`` replaces it. Raises ActFailed when it cannot be kept."""
    # By run too: a container that was made anew has originals of its own.
    name = hashlib.sha256(f"{run} {path}".encode()).hexdigest()[:16]
    quoted, kept = shlex.quote(path), f"{STATE}/originals/{name}"
    script = (
        f"umask 077; mkdir -p {STATE}/originals && cd {STATE}/originals || exit 1\n"
        f"[ -e {quoted} ] || {{ echo absent; exit 0; }}\n"
        f"if [ ! -e {kept} ]; then cp -- {quoted} {kept}.partial && sync {kept}.partial && "
        f"mv -f {kept}.partial {kept} || exit 1; fi\n"
        f"stat -c '%a %u:%g' {quoted}"
    )
    done = transport.run(host, script)
    if not done.ok:
        raise ActFailed(f"{path} could not be kept before the change: {done.error_text}")
    written = hashlib.sha256(data).hexdigest()
    words = done.text.split()
    if words == ["absent"]:
        _note(host, Change("file", run, path=path, written=written))
    else:
        _note(host, Change("file", run, path, written, name, words[0], words[1]))


def _note(host: Host, change: Change) -> None:
    done = transport.run(host, f"umask 077; mkdir -p {STATE} && cat {STATE}/manifest.json 2>/dev/null || :")
    try:
        changes = parse(done.text) if done.stdout else ()
    except (ValueError, TypeError, KeyError) as error:
        raise ActFailed(
            f"{host.name}: {STATE}/manifest.json is not readable ({error}); what was there before could be lost. "
            "Repair it or move it away, then run again"
        ) from error
    changes = with_change(changes, change)
    for name, text, mode in (
        ("undo.sh", undo_script(changes), "700"),
        ("manifest.json", dump(changes), "600"),
    ):
        try:
            transport.put(host, BytesIO(text.encode()), f"{STATE}/{name}", mode=mode, owner="0:0")
        except OSError as error:
            raise ActFailed(str(error)) from error
