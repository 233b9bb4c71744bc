"""Small reads that become sections of a record. None raises: what cannot be read is a section with an error."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from checks.record import Section

READ_LIMIT = 4096
By = dict[tuple[str, str], Section]


def file(root: str, path: str, limit: int = READ_LIMIT) -> Section:
    """The first ``limit`` bytes of a file below ``root``; absent when there is none."""
    return made("file", path, lambda: _read(root + path, limit))


def link(root: str, path: str) -> Section:
    return made("link", path, lambda: str(Path(root + path).readlink()).encode())


def listing(root: str, path: str) -> Section:
    """Names in a folder, one a line, sorted."""
    return made("dir", path, lambda: _lines(sorted(entry.name for entry in Path(root + path).iterdir())))


def kept(section: Section, keep: Callable[[str], bool]) -> Section:
    """The same section with only those lines for which ``keep`` holds."""
    if section.data is None:
        return section
    lines = section.data.decode(errors="replace").splitlines()
    return Section(section.kind, section.path, _lines(line for line in lines if keep(line)))


def made(kind: str, path: str, look: Callable[[], bytes]) -> Section:
    try:
        return Section(kind, path, look())
    except (FileNotFoundError, NotADirectoryError):
        return Section(kind, path)
    except OSError as error:
        return Section(kind, path, None, error.strerror or str(error))


def text(by: By, kind: str, path: str) -> str | None:
    """The text of a section, None when it is absent, unreadable or not in the evidence."""
    section = by.get((kind, path))
    return section.data.decode(errors="replace") if section is not None and section.data is not None else None


def _read(path: str, limit: int) -> bytes:
    with Path(path).open("rb") as stream:
        return stream.read(limit)


def _lines(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()
