"""Is what the target has what the source has? By checksums, and later by the files being the very same ones."""

from __future__ import annotations

import shlex

from provision.hub.select import OWN
from provision.migrate.copy import ends, hashing, place, scripts, way
from provision.migrate.copy.differences import Difference, differences
from provision.migrate.copy.listing import (
    Listing,
    NotRead,
    against_manifest,
    changed,
    listing,
    sums,
)
from provision.migrate.copy.model import Place
from provision.migrate.copy.owners import moved
from provision.migrate.copy.parts import Part
from provision.migrate.sides import Side

THREADS = 4


def proven(source: Side, target: Side, part: Part, run: str) -> bool:
    """Was this folder found equal and put in place by this run, and is every file on both sides the one of that time?
    Raises CopyFailed."""
    was = _seen(target, part, run, part.target.path)
    if was is None:
        return False
    if not part.folder.immutable:
        return True
    now = ends.run(source, hashing.look(part.source), f"listing {part.folder.source_path}", timeout=600)
    try:
        return not changed(was, listing(now.stdout))
    except NotRead:
        return False


def gathered(target: Side, part: Part, run: str) -> bool:
    """Is what was gathered the very same that was found equal? Raises CopyFailed."""
    return _seen(target, part, run, part.target.staging(run)) is not None


def _seen(target: Side, part: Part, run: str, path: str) -> Listing | None:
    """What the source had when target and source were found equal; None when that is not so, or the target's files are
    others by now. (By size, times and inode: nobody can set the time of a file's last change.)"""
    at, kept = Place(path), f"{place.record(run)}/{part.number}"
    script = (
        f"[ -e {kept}.seen ] && [ -e {kept}.source ] && [ -e {shlex.quote(path)} ] || exit 0\n{hashing.enter(at)}\n"
        f"cat {kept}.source; {hashing.SAY_NEXT}; cat {kept}.seen; {hashing.SAY_NEXT}; {hashing.find(at)}\n"
    )
    done = ends.at(target, part.target, script, f"looking at {path}", timeout=600)
    pieces = hashing.pieces(done.stdout, 3)
    try:
        was, seen, there = map(listing, pieces or ())
    except ValueError:
        return None
    # Renaming a folder or file changes its own time.
    top = seen.pop("."), there.pop(".")
    same = (top[0].inode, top[0].size, top[0].modified) == (top[1].inode, top[1].size, top[1].modified)
    return was if same and not changed(seen, there) else None


def verify(source: Side, target: Side, part: Part, run: str, state: str) -> list[str]:
    """What differs between the source's folder and the target's, a line each; what has to be sent once more is noted
    for the next start. ``state``: of ``place.state``. Raises CopyFailed when the target cannot be read."""
    name = part.folder.source_path
    done = source.host(scripts.known(run, part.number, part.source), timeout=600)
    raw = hashing.pieces(done.stdout, 4) if done.ok else None
    try:
        if raw is None:
            raise NotRead(done.error_text or "the answer is cut off")
        before, after = listing(raw[0]), listing(raw[2])
        hashed = sums(raw[1], before)
    except NotRead as error:
        return [f"{source.name}: {name} was not copied to the end: there is no manifest of it ({error})"]
    found = [f"{source.name}: {name}: {line} since the copy began" for line in changed(before, after)]
    found += [
        f"{source.name}: {name}: {line}" for line in (against_manifest(raw[3], hashed) if raw[3] else [])
    ]
    there = state == "there"
    path = part.target.path if state != "absent" else part.target.staging(run)
    script = hashing.checksums(path, THREADS)
    answer = ends.at(target, part.target, script, f"taking checksums of {path}", timeout=None).stdout
    pieces = hashing.pieces(answer, 3)
    try:
        if pieces is None:
            raise NotRead("the answer is cut off")
        first, seen = listing(pieces[0]), listing(pieces[2])
        theirs = sums(pieces[1], seen)
    except NotRead as error:
        raise ends.unreadable(target, path, error) from error
    found += [f"{target.name}: {path}: {line} while it was looked at" for line in changed(first, seen)]
    differ = _compare(source, target, part, (before, hashed), (seen, theirs), content_only=there)
    found += [f"{target.name}: {path}: {difference.text}" for difference in differ]
    again = [difference.path for difference in differ if difference.again]
    if again and not there:
        data = b"".join(name.encode("utf-8", "surrogateescape") + b"\0" for name in again)
        way.write(source, run, f"{part.number}/again", data)
    if not found:
        _keep(target, part, run, raw[0], pieces[2])
    return found


def _compare(
    source: Side,
    target: Side,
    part: Part,
    ours: tuple[Listing, dict[str, str]],
    theirs: tuple[Listing, dict[str, str]],
    *,
    content_only: bool,
) -> list[Difference]:
    """``content_only``: a folder that somebody else put there may have its own owners, times and notes about itself."""
    if not content_only:
        here, there = ends.ids(source), ends.ids(target, place=part.target)
        return differences(
            *ours, *theirs, lambda user, group: (moved(user, here, there), moved(group, here, there))
        )
    files = [
        ({path: entry for path, entry in entries.items() if entry.kind == "f" and path not in OWN}, hashed)
        for entries, hashed in (ours, theirs)
    ]
    found = differences(*files[0], *files[1], lambda user, group: (user, group))
    return [each for each in found if each.content]


def _keep(target: Side, part: Part, run: str, was: bytes, seen: bytes) -> None:
    """What was compared, on the target, where it outlives a restart of either machine."""
    kept = place.record(run)
    script = f"set -eu; umask 077; mkdir -p -m 700 -- {kept}; cd {kept}\n"
    script += "".join(
        f"head -c {len(data)} > {name}.new; sync {name}.new; mv -f {name}.new {name}\n"
        for name, data in ((f"{part.number}.source", was), (f"{part.number}.seen", seen))
    )
    ends.at(target, part.target, script, "keeping the manifest", stdin=was + seen)
