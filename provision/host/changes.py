"""The changes that kpro made to a machine, as its manifest lists them, and the script that takes them back. Pure."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from provision.data import gpu_daemons
from provision.guest.userspace import LINKER, PROGRAM
from provision.host.users import UNLOADED
from provision.templates import render

SCHEMA = "kpro-manifest/1"


@dataclass(frozen=True)
class Change:
    """One change. ``run`` made it; ``kind`` is one of

    - ``file``: ``path`` was written with sha256 ``written``, or removed (``absent``); ``original`` is its name in
      ``originals/`` (None: it was not there). ``boot``: the next boot depends on it, through the initramfs or the boot
      loader.
    - ``tree``: many files at once; ``original`` names their list in ``originals/``; ``then`` is done after they went.
    - ``container``: ``id`` was made in ``folder``; the folder ``pct`` stands for a container of Proxmox.
    - ``conf``: ``path``, the configuration of Proxmox container ``id``, was changed; ``names`` are the sha256 that it
      has had since by what kpro did.
    - ``binding``: the PCI function ``id`` had the driver ``before`` ("": none) and the override ``override``.
    - ``module``: the NVIDIA modules were loaded; ``before`` is version and flavour of those that gave way ("": none).
    - ``guest``: the running container ``id`` in ``folder`` (or ``pct``) was stopped; ``before`` is what its linker was
      led to, and ``names`` are the units that serve in it.
    - ``unit``: the systemd unit ``id`` was ``before`` (``enabled active``, ``disabled inactive``, …).
    - ``packages``: ``names`` were installed, and had not been.
    - ``installer``: NVIDIA's .run installer of version ``id`` ran.
    - ``hold``: the packages ``names`` were put on hold, and had not been.
    - ``running``: the container ``id`` of Proxmox was stopped.
    - ``key``: the key ``path`` of the guest ``id`` was set to ``written`` with the program ``folder`` (qm, pct), and
      was ``before``; an empty text is a key that is not there.
    """

    kind: str
    run: str
    path: str = ""
    written: str = ""
    original: str | None = None
    mode: str | None = None
    owner: str | None = None
    id: str = ""
    folder: str = ""
    before: str = ""
    override: str = ""
    boot: bool = False
    names: tuple[str, ...] = ()
    then: tuple[str, ...] = ()

    def is_about(self, other: Change) -> bool:
        """The same thing, changed by the same run."""
        return (self.kind, self.run, self.path, self.id) == (other.kind, other.run, other.path, other.id)


def parse(text: str) -> tuple[Change, ...]:
    """The changes of a manifest, oldest first. Raises ValueError when it is none."""
    document = json.loads(text)
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise ValueError(f"it does not say schema {SCHEMA}")
    return tuple(_change(values) for values in document["changes"])


def _change(values: dict[str, Any]) -> Change:
    known: dict[str, Any] = dict(values)
    for name in ("names", "then"):
        known[name] = tuple(known.get(name, ()))
    return Change(**known)


def dump(changes: Sequence[Change]) -> str:
    return json.dumps({"schema": SCHEMA, "changes": [asdict(change) for change in changes]}, indent=1) + "\n"


def with_change(changes: Sequence[Change], new: Change) -> tuple[Change, ...]:
    """A second change of a run to the same thing keeps what was there before the first. Changes of different runs stand
    side by side: each can be taken back alone."""
    kept = tuple(changes)
    if new.kind == "container":
        # What was there in an earlier container of this place is nobody's original any more.
        kept = tuple(
            old
            for old in kept
            if not old.path.startswith(f"{new.folder}/") and (old.kind, old.id) != ("container", new.id)
        )
    for index, old in enumerate(kept):
        if old.is_about(new):
            first = replace(
                new,
                original=old.original,
                mode=old.mode,
                owner=old.owner,
                before=old.before,
                override=old.override,
                names=tuple(dict.fromkeys((*old.names, *new.names))),
            )
            return (*kept[:index], first, *kept[index + 1 :])
    return (*kept, new)


def with_changes(changes: Sequence[Change], new: Iterable[Change]) -> tuple[Change, ...]:
    known = tuple(changes)
    for change in new:
        known = with_change(known, change)
    return known


def undo_script(changes: Sequence[Change]) -> str:
    """The text of ``undo.sh``: every change, newest first."""
    runs = dict.fromkeys(change.run for change in changes)
    return render(
        "undo.sh.j2",
        runs=[shlex.quote(run) for run in runs],
        changes=[_line(changes, at) for at in reversed(range(len(changes)))],
        daemons=gpu_daemons.UNITS,
        modules=UNLOADED,
        linker=LINKER,
        program=PROGRAM,
    )


@dataclass(frozen=True)
class Line:
    """A change as the script has it: the function to call, for which run, with which words. GPUs leave their drivers
    first, then the modules go, then their files, then what they held, and containers that slept wake last: ``turn`` 0
    to 4. ``stop`` is the container to stop before all."""

    run: str
    call: str
    turn: int
    stop: str | None = None


def _line(changes: Sequence[Change], at: int) -> Line:
    change = changes[at]
    return Line(
        shlex.quote(change.run),
        shlex.join(_words(changes, at)),
        {"binding": 0, "module": 1, "guest": 4, "running": 3}.get(change.kind, 2),
        shlex.join([change.id, change.folder]) if change.kind in ("container", "guest") else None,
    )


def _words(changes: Sequence[Change], at: int) -> list[str]:
    change = changes[at]
    older = [
        old for old in changes[:at] if (old.kind, old.path, old.id) == (change.kind, change.path, change.id)
    ]
    match change.kind:
        case "file":
            inside = any(
                other.kind == "container" and change.path.startswith(f"{other.folder}/") for other in changes
            )
            again = [new.run for new in changes[at + 1 :] if _wrote(new) == _wrote(change)]
            return [
                "back",
                change.path,
                change.written,
                change.mode or "-",
                change.owner or "-",
                "boot" if change.boot else "container" if inside else "-",
                again[0] if again else "-",
                *(old.original or "-" for old in (change, *reversed(older))),
            ]
        case "tree":
            again = [new.run for new in changes[at + 1 :] if (new.kind, new.id) == ("tree", change.id)]
            return ["tree", change.original or "-", again[0] if again else "-", *change.then]
        case "container":
            return ["container", change.id, change.folder]
        case "conf":
            made = any((old.kind, old.id, old.folder) == ("container", change.id, "pct") for old in changes)
            kind = "container" if made else "-"
            words = [change.path, change.id, kind, change.original or "-", ",".join(change.names)]
            return ["conf", *words, *(old.original or "-" for old in reversed(older))]
        case "binding":
            return ["binding", change.id, change.before, change.override, *(old.run for old in older)]
        case "module" if change.before:
            return ["exchange", *change.before.split(), *(old.run for old in older)]
        case "module":
            return ["unload"]
        case "guest":
            return [
                "wake",
                change.id,
                change.folder,
                change.before.strip() or "-",
                " ".join(change.names),
                *(old.run for old in older),
            ]
        case "unit":
            return ["unit", change.id, *change.before.split(), *(old.run for old in older)]
        case "packages":
            return ["packages", *change.names]
        case "installer":
            return ["installer", change.id]
        case "hold":
            return ["unhold", *change.names]
        case "running":
            return ["running", change.id]
        case "key":
            return [
                "key",
                change.folder,
                change.id,
                change.path,
                change.written,
                change.before,
                *(old.run for old in older),
            ]
    raise ValueError(f"a change of kind {change.kind!r} is not known to this version")


def _wrote(change: Change) -> tuple[str, str, str]:
    return change.kind, change.path, change.written
