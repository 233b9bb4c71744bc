"""What lies in a folder, as ``find`` and the checksums tell it, and what differs between two looks. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from provision.migrate.copy.model import Sizes

PRINT = r"-printf '%y %s %b %T@ %C@ %D:%i %n %m %U %G\0%P\0%l\0'"
"""For GNU find: three texts for each entry, so that names and links may hold any byte but NUL."""
FIELDS = 10


class NotRead(ValueError):
    """A look that is cut off or is none."""


@dataclass(frozen=True)
class Entry:
    """``kind``: f, d, l or another of find's; sizes in bytes; times as seconds with their fraction, as text; ``link``:
    where a symbolic link leads."""

    path: str
    kind: str
    size: int
    blocks: int
    modified: str
    changed: str
    inode: str
    links: int
    mode: str
    uid: int
    gid: int
    link: str

    @property
    def version(self) -> tuple[object, ...]:
        """What is another one as soon as content, attributes or the file itself is another."""
        if self.kind == "d":
            # A folder's times change with its entries, which are looked at one by one.
            return self.kind, self.inode, self.mode, self.uid, self.gid
        return self.kind, self.size, self.modified, self.changed, self.inode, self.link


Listing = dict[str, Entry]


def listing(data: bytes) -> Listing:
    """Entries by path, relative to the folder (or single file), which is ``.`` itself. Raises NotRead."""
    texts = data.decode("utf-8", "surrogateescape").split("\0")
    if texts.pop() or len(texts) % 3:
        raise NotRead("the list of files is cut off")
    found: Listing = {}
    for facts, path, link in zip(texts[::3], texts[1::3], texts[2::3], strict=True):
        words = facts.split(" ")
        if len(words) != FIELDS:
            raise NotRead(f"the list of files cannot be read at {path!r}")
        kind, size, blocks, modified, changed, inode, links, mode, uid, gid = words
        name = path or "."
        found[name] = Entry(
            name,
            kind,
            int(size),
            int(blocks),
            modified,
            changed,
            inode,
            int(links),
            mode,
            int(uid),
            int(gid),
            link,
        )
    if "." not in found:
        raise NotRead("the list of files has no beginning")
    return found


def sums(data: bytes, entries: Listing) -> dict[str, str]:
    """SHA-256 in hexadecimal digits by path, from ``sha256sum -z``; ``entries``: of the same folder or file. Raises
    NotRead."""
    alone = entries["."].kind == "f"
    found = {}
    texts = data.decode("utf-8", "surrogateescape").split("\0")
    if texts.pop():
        raise NotRead("the list of checksums is cut off")
    for text in texts:
        digest, mark, path = text[:64], text[64:66], text[66:]
        if len(digest) != 64 or mark not in ("  ", " *"):
            raise NotRead(f"the list of checksums cannot be read at {path!r}")
        found["." if alone else path.removeprefix("./")] = digest
    return found


def sizes(entries: Listing) -> Sizes:
    unique = {entry.inode: entry for entry in entries.values()}.values()
    files = [entry for entry in unique if entry.kind == "f"]
    return Sizes(
        size=sum(entry.size for entry in files),
        allocated=sum(entry.blocks * 512 for entry in unique),
        files=len(files),
        inodes=len(unique),
        left_out=tuple(sorted(shown(e.path) for e in entries.values() if e.kind not in ("f", "d", "l"))),
    )


def changed(before: Listing, after: Listing) -> list[str]:
    """What happened to a folder between two looks, a line each."""
    found = []
    for path in sorted(before.keys() | after.keys()):
        old, new = before.get(path), after.get(path)
        if new is None:
            found.append(f"{shown(path)} was removed")
        elif old is None:
            found.append(f"{shown(path)} was added")
        elif old.version != new.version:
            found.append(f"{shown(path)} was changed ({_what(old, new)})")
    return found


def _what(old: Entry, new: Entry) -> str:
    if old.kind != new.kind:
        return f"type {old.kind}, now {new.kind}"
    if old.size != new.size:
        return f"{old.size} bytes, now {new.size}"
    if old.inode != new.inode:
        return "replaced by another file"
    return "written to" if old.modified != new.modified else "its attributes"


def against_manifest(manifest: bytes, hashed: Mapping[str, str]) -> list[str]:
    """What a folder's own MANIFEST (provision.stack.manifest) says otherwise than its checksums, a line each."""
    try:
        wanted = {str(path): str(entry["sha256"]) for path, entry in json.loads(manifest).items()}
    except (ValueError, TypeError, KeyError, AttributeError):
        return ["its MANIFEST cannot be read"]
    return [
        f"{shown(path)} {'is missing' if path not in hashed else 'has another content than its MANIFEST says'}"
        for path, digest in sorted(wanted.items())
        if hashed.get(path) != digest
    ]


def shown(path: str) -> str:
    """A name for a message: no line break, no byte that is no UTF-8."""
    text = path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def named(lines: Iterable[str], most: int = 20) -> str:
    """Lines for one message."""
    rows = list(lines)
    rest = f", and {len(rows) - most} more" if len(rows) > most else ""
    return ", ".join(rows[:most]) + rest
