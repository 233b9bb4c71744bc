"""The two ends of a copy: where a folder lies on each, whose ids count there, and commands that must succeed."""

from __future__ import annotations

from dataclasses import replace

from provision.guest.mounts import on_machine
from provision.migrate.copy.listing import NotRead
from provision.migrate.copy.model import CopyFailed, Folder, Place
from provision.migrate.copy.owners import Range, range_of
from provision.migrate.sides import Completed, Side


def source_place(side: Side, folder: Folder) -> Place:
    return replace(_place(side, folder.source_path), follow=folder.follow)


def target_place(side: Side, folder: Folder) -> Place:
    return _place(side, folder.target_path)


def _place(side: Side, path: str) -> Place:
    clean = "/" + "/".join(part for part in path.split("/") if part)
    there = on_machine(side.machine, side.guest, clean)
    return Place(clean, side.guest.id) if there is None else Place(there)


def run(
    side: Side,
    script: str,
    what: str,
    *,
    stdin: bytes = b"",
    timeout: float | None = 60,
    inside: bool = False,
) -> Completed:
    """Raises CopyFailed with what the script said, TransportError when the machine is not reached."""
    done = (side.inside if inside else side.host)(script, stdin=stdin, timeout=timeout)
    if not done.ok:
        said = " ".join(f"{done.error_text} {done.text[-300:]}".split())[-600:] or f"exit {done.rc}"
        raise CopyFailed(
            f"{side.name}: {what} failed: {said}",
            "the copy cannot go on without it",
            "mend that, then go on with --resume",
        )
    return done


def at(
    side: Side, place: Place, script: str, what: str, *, stdin: bytes = b"", timeout: float | None = 60
) -> Completed:
    """The script where a place of the target is reached: on the machine, or in its container. Raises as ``run``."""
    return run(side, script, what, stdin=stdin, timeout=timeout, inside=place.container is not None)


def ids(side: Side, *, place: Place | None = None) -> Range:
    """The guest's ids as they are seen from the machine, or, for a place inside, from the container itself. Raises
    CopyFailed when the container does not run."""
    if place is not None and place.container is not None:
        return Range()
    if not side.guest.unprivileged:
        return Range()
    name = side.guest.id
    script = f'p=$(lxc-info -n {name} -pH) && [ "${{p:-0}}" -gt 1 ] && cat /proc/$p/uid_map'
    found = range_of(run(side, script, f"reading the ids of container {name}").text)
    if found is None:
        raise CopyFailed(
            f"{side.name}: the ids of container {name} cannot be told from its uid_map",
            "copied files would belong to somebody else",
            "look at lxc.idmap in its configuration",
        )
    return found


def unreadable(side: Side, what: str, error: NotRead) -> CopyFailed:
    return CopyFailed(
        f"{side.name}: {what}: {error}",
        "what cannot be read is not known to be equal",
        "go on with --resume",
    )
