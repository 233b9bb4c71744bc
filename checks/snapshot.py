"""The snapshot of a machine: what ``snapshot.sh`` prints, read into a typed value.

Every look at a machine has three possible answers: it is there (bytes), it is absent (positively known), or it
could not be looked at. The third is never taken for the second.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files

LIMIT = 1 << 20
"""Bytes of one section that are read; the script hands over one more, so that a cut is seen."""


class SnapshotError(ValueError):
    """The snapshot is cut off or is not one."""


class CouldNotLook(Exception):
    """Something was needed from the snapshot and could not be read, or was never asked for."""


@dataclass(frozen=True)
class Section:
    """One look: ``data`` is None when the thing is absent; ``error`` says why it could not be looked at."""

    kind: str
    path: str
    data: bytes | None
    error: str | None = None


def script() -> str:
    """The POSIX shell text that takes a snapshot."""
    return files("checks").joinpath("snapshot.sh").read_text(encoding="ascii")


def parse(output: bytes) -> Snapshot:
    """Reads the script's output.

    Raises SnapshotError when a line is malformed or the end mark is missing.
    """
    sections: dict[tuple[str, str], Section] = {}
    texts: dict[tuple[str, str], list[bytes]] = {}
    lines = output.split(b"\n")
    if lines and not lines[-1]:
        lines.pop()
    count, rows = 0, None
    for line in lines[:-1]:
        if line.startswith(b"|"):
            if rows is None:
                raise SnapshotError(f"a line of no section: {line[:80]!r}")
            rows.append(line[1:] + b"\n")
            continue
        count, rows = count + 1, None
        if line.startswith(b"F "):
            sections |= {(section.kind, section.path): section for section in _files(line)}
            continue
        section = _section(line)
        key = section.kind, section.path
        sections[key] = section
        if line.startswith(b"T "):
            rows = texts[key] = []
    if not lines or lines[-1] != b"E %d" % count:
        raise SnapshotError(f"the snapshot is cut off after {count} sections")
    for (kind, path), found in texts.items():
        sections[kind, path] = Section(kind, path, b"".join(found))
    return Snapshot(sections)


def _section(line: bytes) -> Section:
    mark, _, rest = line.partition(b" ")
    words = rest.split(b" ", 2)
    if len(words) != {b"A": 2, b"T": 2, b"S": 3, b"X": 3}.get(mark):
        raise SnapshotError(f"not a section: {line[:80]!r}")
    kind = words[0].decode()
    try:
        path = _path(words[1])
        if mark == b"X":
            return Section(kind, path, None, words[2].decode(errors="replace"))
        data = base64.b64decode(words[2], validate=True) if mark == b"S" else b""
    except (ValueError, binascii.Error) as error:
        raise SnapshotError(f"section {words[1]!r}: {error}") from error
    if len(data) > LIMIT:
        return Section(kind, path, None, f"larger than {LIMIT} bytes")
    return Section(kind, path, None if mark == b"A" else data)


def _files(line: bytes) -> list[Section]:
    """The files that one ``head`` printed. A file that holds the very line that begins another one makes it unclear
    which is which: then none of them was looked at."""
    words = line.split(b" ")
    try:
        data, code, names = base64.b64decode(words[1], validate=True), int(words[2]), words[3:]
    except (ValueError, IndexError) as error:
        raise SnapshotError(f"not the section of files: {line[:80]!r}: {error}") from error
    if code != 0:
        return []
    data = b"\n" + data
    marks = [b"\n==> %s <==\n" % name for name in names]
    if any(data.count(mark) != 1 for mark in marks):
        why = "the files of the machine could not be told apart"
        return [Section("file", _path(name[1:]), None, why) for name in names]
    places = [data.index(mark) for mark in marks]
    ends = [*places[1:], len(data)]
    found = []
    for name, mark, place, end in zip(names, marks, places, ends, strict=True):
        content = data[place + len(mark) : end]
        too_big = f"larger than {LIMIT} bytes" if len(content) > LIMIT else None
        found.append(Section("file", _path(name[1:]), None if too_big else content, too_big))
    return found


def _path(name: bytes) -> str:
    if name.startswith(b"b64:"):
        name = base64.b64decode(name[4:], validate=True)
    return name.decode(errors="surrogateescape")


@dataclass(frozen=True)
class Snapshot:
    """All looks of one moment."""

    sections: Mapping[tuple[str, str], Section]

    def shows(self, path: str) -> bool:
        """Would this path have been seen, were it there? A machine shows everything; a record what it has, and what it
        says was absent (sections ``record /there`` and ``record /absent``: paths, a line each)."""
        if not self.is_record:
            return True
        there, absent = (self._record(name) for name in ("/there", "/absent"))
        parts = path.split("/")
        return path in there or any("/".join(parts[:end]) in absent for end in range(2, len(parts) + 1))

    @property
    def is_record(self) -> bool:
        return ("record", "/there") in self.sections

    def _record(self, name: str) -> frozenset[str]:
        return frozenset((self.data("record", name) or b"").decode(errors="surrogateescape").split("\n"))

    def data(self, kind: str, path: str) -> bytes | None:
        """The bytes; None when absent. Raises CouldNotLook otherwise."""
        section = self.sections.get((kind, path))
        if section is None:
            raise CouldNotLook(f"{kind} {path} was not asked for")
        if section.error is not None:
            raise CouldNotLook(f"{path}: {section.error}")
        return section.data

    def file(self, path: str) -> bytes | None:
        return self.data("file", path)

    def text(self, path: str) -> str | None:
        data = self.file(path)
        return None if data is None else data.decode(errors="replace")

    def plain(self, path: str) -> str | None:
        """A text file from which the same bytes can be made again. Raises CouldNotLook for what is no text: bytes of
        other encodings may stand in comments, one that is zero stands in none."""
        data = self.file(path)
        if data is not None and b"\0" in data:
            raise CouldNotLook(f"{path} is not readable as text: it has a zero byte at {data.index(0)}")
        return None if data is None else data.decode(errors="surrogateescape")

    def digest(self, path: str) -> str | None:
        """The sha256 of a file, in hex; None when absent."""
        data = self.data("sha", path)
        return None if data is None else data.decode().strip()

    def has_tool(self, name: str) -> bool:
        return self.data("tool", name) is not None

    def command(self, name: str) -> tuple[int, str]:
        """Exit code and output (stdout and stderr as they came) of a command of the snapshot."""
        output = self.data("cmd", name)
        code = self.data("rc", name)
        if output is None or code is None or not code.decode("ascii", "replace").strip().isdecimal():
            raise CouldNotLook(f"command {name} gave nothing")
        return int(code), output.decode(errors="replace")

    def files(self, *under: str) -> list[str]:
        """The files whose paths begin so. Raises CouldNotLook when one of them, or a folder of theirs, is there and
        could not be read."""
        found = []
        for (kind, path), section in self.sections.items():
            if kind != "file":
                continue
            if section.error is not None and any(
                path.startswith(one) or one.startswith(f"{path}/") for one in under
            ):
                raise CouldNotLook(f"{path}: {section.error}")
            if section.data is not None and path.startswith(under):
                found.append(path)
        return found

    def paths(self, kind: str) -> Iterable[str]:
        return [
            path for (of, path), section in self.sections.items() if of == kind and section.data is not None
        ]
