"""Where the source does not reach the target: the bytes go through the controller, a piece at a time.

Slower, and only as long as the controller lives; what arrived stays, and the next try goes on behind it: large files by
offset, small ones by file. Pieces are so small that the controller's memory does not grow with the folder.
"""

from __future__ import annotations

import posixpath
import shlex
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from provision.migrate.copy import ends, hashing, scripts, unit
from provision.migrate.copy.listing import Entry, Listing, NotRead, listing
from provision.migrate.copy.model import CopySettings, Place, Progress
from provision.migrate.copy.parts import Part, Say
from provision.migrate.sides import Side

PIECE = 16 * 2**20
"""Bytes of a large file that are under way at once, and of small files together."""
_LINK = """xargs -0r sh -c 'rm -f -- "$2" && ln -T -- "$1" "$2"' sh"""
MOST = 2000
"""Small files in one piece."""


def batches(entries: list[Entry]) -> Iterator[list[Entry]]:
    """Small files and links, so many as make a piece."""
    batch: list[Entry] = []
    size = 0
    for entry in entries:
        if batch and (size + entry.size > PIECE or len(batch) >= MOST):
            yield batch
            batch, size = [], 0
        batch.append(entry)
        size += entry.size
    if batch:
        yield batch


def missing(
    source: Listing, target: Listing, again: set[str]
) -> tuple[list[Entry], list[Entry], list[Entry]]:
    """Folders, small things and large files that are to be sent, as they are on the source; of a file with several
    names the first."""
    seen: set[str] = set()
    folders: list[Entry] = []
    small: list[Entry] = []
    large: list[Entry] = []
    for path in sorted(source):
        entry, there = source[path], target.get(path)
        if entry.kind == "d":
            folders.append(entry)
        if entry.kind not in ("f", "l") or (entry.links > 1 and entry.inode in seen):
            continue
        seen.add(entry.inode)
        same = there is not None and (there.kind, there.size, there.link) == (
            entry.kind,
            entry.size,
            entry.link,
        )
        if same and there is not None and path not in again and _second(there) == _second(entry):
            continue
        (large if entry.kind == "f" and entry.size > PIECE else small).append(entry)
    return folders, small, large


def others(source: Listing) -> list[tuple[str, str]]:
    """The first name of a file that has several, and each of its others."""
    first: dict[str, str] = {}
    return [
        (name, path)
        for path in sorted(source)
        if source[path].kind == "f"
        and source[path].links > 1
        and (name := first.setdefault(source[path].inode, path)) != path
    ]


def _second(entry: Entry) -> str:
    return entry.modified.split(".")[0]


@dataclass
class Relay:
    """The pump. ``run`` may be broken off at any time."""

    run_id: str
    source: Side
    target: Side
    settings: CopySettings
    _work: list[tuple[Part, unit.Job]] = field(default_factory=list)
    _total: int = 0
    _done: int = 0
    _moved: int = 0
    _began: float = 0.0
    _state: str = "none"

    def take(self, parts: tuple[Part, ...], jobs: list[unit.Job], total: int) -> None:
        """What ``run`` is to do."""
        self._work, self._total, self._done, self._moved = list(zip(parts, jobs, strict=True)), total, 0, 0
        self._state, self._began = "copying", time.monotonic()

    def progress(self) -> Progress:
        elapsed = time.monotonic() - self._began
        rate = self._moved / elapsed if self._moved and elapsed > 0 else None
        left = (self._total - self._done) / rate if rate and self._state == "copying" else None
        return Progress(min(self._done, self._total), self._total, rate, left, self._state, 1)

    def run(self, say: Say, heard: Callable[[Progress], None] = lambda now: None) -> Progress:
        """Raises CopyFailed and TransportError."""
        say(f"{self.source.name} does not reach {self.target.name}: the bytes go through this controller")
        said = time.monotonic()
        for part, job in self._work:
            for _ in self._copy(part, job) if job.send else ():
                heard(self.progress())
                if time.monotonic() - said > 15:
                    said = time.monotonic()
                    say(self.progress().line)
        self._state = "checking"
        for part, _ in self._work:
            script = scripts.sums(self.run_id, part.number, part.source)
            ends.run(self.source, script, f"taking checksums of {part.folder.source_path}", timeout=None)
        self._state, self._done = "done", self._total
        say(self.progress().line)
        heard(self.progress())
        return self.progress()

    def _copy(self, part: Part, job: unit.Job) -> Iterator[None]:
        path = part.target.staging(self.run_id)
        here = ends.run(self.source, hashing.look(part.source), "listing the source", timeout=600)
        at = Place(path)
        try:
            ours = listing(here.stdout)
        except NotRead as error:
            raise ends.unreadable(self.source, part.folder.source_path, error) from error
        if ours["."].kind == "f":
            yield from self._single(part, job, path, ours["."])
            return
        make = f"mkdir -p -m 700 -- {shlex.quote(path)}\n{hashing.enter(at)}\n{hashing.find(at)}"
        there = ends.at(self.target, part.target, make, "listing the target", timeout=600)
        again = ends.run(
            self.source, scripts.again(self.run_id, part.number), "reading what is to be sent again"
        )
        try:
            theirs = listing(there.stdout)
        except NotRead as error:
            raise ends.unreadable(self.target, path, error) from error
        names = set(again.stdout.decode("utf-8", "surrogateescape").split("\0"))
        folders, small, large = missing(ours, theirs, names)
        self._done += sum(e.size for e in {e.inode: e for e in ours.values() if e.kind == "f"}.values())
        self._done -= sum(entry.size for entry in small + large if entry.kind == "f")
        gone = [name for name in sorted(theirs, reverse=True) if name not in ours]
        self._names(part, path, "xargs -0r rm -rf --one-file-system --", gone, "removing what is too many")
        self._tar(part, job, path, folders)
        for batch in batches(small):
            self._tar(part, job, path, batch)
            self._count(sum(entry.size for entry in batch if entry.kind == "f"))
            yield
        for entry in large:
            yield from self._large(part, path, entry, None if entry.path in names else theirs.get(entry.path))
        # Once whole: times, modes and owners of large files come like those of small ones.
        self._attributes(part, job, path, large)
        for first, other in others(ours):
            self._names(part, path, _LINK, [first, other], "linking a file's other name")
        self._tar(part, job, path, folders)

    def _single(self, part: Part, job: unit.Job, path: str, entry: Entry) -> Iterator[None]:
        folder, name = posixpath.split(path)
        alone = replace(entry, path=name)
        yield from self._large(part, folder, alone, None, read='"$root"')
        self._attributes(part, job, folder, [alone])

    def _names(self, part: Part, path: str, command: str, names: list[str], what: str) -> None:
        if names:
            stdin = b"".join(b"./" + name.encode("utf-8", "surrogateescape") + b"\0" for name in names)
            ends.at(self.target, part.target, f"cd -- {shlex.quote(path)} && {command}", what, stdin=stdin)

    def _tar(self, part: Part, job: unit.Job, path: str, entries: list[Entry]) -> None:
        if not entries:
            return
        names = b"".join(b"./" + e.path.encode("utf-8", "surrogateescape") + b"\0" for e in entries)
        packed = ends.run(
            self.source, scripts.pack(part.source, job), "reading files", stdin=names, timeout=600
        ).stdout
        unpack = (
            f"cd -- {shlex.quote(path)} && tar -xpf - --numeric-owner --same-owner --delay-directory-restore"
        )
        ends.at(self.target, part.target, unpack, "writing files", stdin=packed, timeout=600)

    def _large(
        self, part: Part, path: str, entry: Entry, there: Entry | None, read: str = ""
    ) -> Iterator[None]:
        """``there``: what of it is on the target and can be kept; ``read``: what it is called on the source."""
        name = shlex.quote(f"./{entry.path}")
        into = f"cd -- {shlex.quote(path)} && "
        start = 0
        if there is not None and there.kind == "f" and there.size < entry.size:
            start = there.size // PIECE * PIECE
        first = (
            f"{into}rm -f -- {name} && : > {name}" if start == 0 else f"{into}truncate -s {start} -- {name}"
        )
        ends.at(self.target, part.target, first, f"beginning {entry.path}")
        self._count(start, moved=False)
        for offset in range(start, entry.size, PIECE):
            size = min(PIECE, entry.size - offset)
            get = f"{hashing.enter(part.source)}\ndd if={read or name} iflag=skip_bytes,count_bytes,fullblock bs=1M "
            get += f"skip={offset} count={size} status=none"
            data = ends.run(self.source, get, f"reading {entry.path}", timeout=600).stdout
            write = f"{into}dd of={name} oflag=seek_bytes iflag=fullblock bs=64K seek={offset} "
            write += f"conv=notrunc,sparse status=none && truncate -s {offset + len(data)} -- {name}"
            ends.at(self.target, part.target, write, f"writing {entry.path}", stdin=data, timeout=600)
            self._count(len(data))
            yield

    def _attributes(self, part: Part, job: unit.Job, path: str, entries: list[Entry]) -> None:
        for entry in entries:
            name = shlex.quote(f"./{entry.path}")
            user, group = job.owner(entry.uid, entry.gid)
            script = f"cd -- {shlex.quote(path)} && chown {user}:{group} -- {name} && chmod {entry.mode} -- {name} && "
            script += f"touch -d @{entry.modified} -- {name}"
            ends.at(self.target, part.target, script, f"finishing {entry.path}")

    def _count(self, size: int, *, moved: bool = True) -> None:
        self._done += size
        if not moved:
            return
        self._moved += size
        limit = self.settings.bwlimit_mib
        if limit is not None:
            ahead = self._moved / (limit * 2**20) - (time.monotonic() - self._began)
            time.sleep(max(ahead, 0))
