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

    Raises SnapshotError when a line is malformed, a length does not agree, or the end mark is missing.
    """
    sections: dict[tuple[str, str], Section] = {}
    lines = output.split(b"\n")
    if lines and not lines[-1]:
        lines.pop()
    count = 0
    for line in lines[:-1]:
        section = _section(line)
        sections[section.kind, section.path] = section
        count += 1
    if not lines or lines[-1] != b"E %d" % count:
        raise SnapshotError(f"the snapshot is cut off after {count} sections")
    return Snapshot(sections)


def _section(line: bytes) -> Section:
    parts = line.split(b" ")
    if len(parts) != 5 or parts[0] not in (b"S", b"X", b"A"):
        raise SnapshotError(f"not a section: {line[:80]!r}")
    mark, kind, name, length, encoded = parts
    try:
        if len(encoded) != int(length):
            raise SnapshotError(f"section {name!r} says {length.decode()} characters and has {len(encoded)}")
        data = base64.b64decode(encoded, validate=True)
        path = _path(name)
    except (ValueError, binascii.Error) as error:
        raise SnapshotError(f"section {name!r}: {error}") from error
    if mark == b"X":
        return Section(kind.decode(), path, None, data.decode(errors="replace").strip())
    if len(data) > LIMIT:
        return Section(kind.decode(), path, None, f"larger than {LIMIT} bytes")
    return Section(kind.decode(), path, data if mark == b"S" else None)


def _path(name: bytes) -> str:
    if name.startswith(b"b64:"):
        name = base64.b64decode(name[4:], validate=True)
    return name.decode(errors="surrogateescape")


@dataclass(frozen=True)
class Snapshot:
    """All looks of one moment."""

    sections: Mapping[tuple[str, str], Section]

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
        if output is None or code is None:
            raise CouldNotLook(f"command {name} gave nothing")
        return int(code), output.decode(errors="replace")

    def paths(self, kind: str) -> Iterable[str]:
        return [
            path for (of, path), section in self.sections.items() if of == kind and section.data is not None
        ]
