"""What is copied, with which settings, and what is told about it. Pure."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass

RUN_FOLDER = "/run/kpro-migrate"
"""On both machines: memory, gone with a restart."""
RECORDS = "/var/lib/kpro/migrations"
"""On the target: what a run put in place, until the migration is closed."""


class CopyFailed(Exception):
    """The copy cannot go on: what was seen, why it matters, the next step, in one sentence each."""

    def __init__(self, seen: str, why: str, next: str) -> None:
        super().__init__(f"{seen}; {why}. {next}")
        self.seen, self.why, self.next = seen, why, next


@dataclass(frozen=True)
class Folder:
    """A folder to be copied. Both paths are absolute and as the guests see them.

    ``immutable``: nobody writes there (a model); it is copied and put in place while the source serves. The others are
    copied once more after the drain. ``follow``: links that lead out of the folder are copied as what they show, as in
    the cache of the hub, where every file is one.
    """

    source_path: str
    target_path: str
    immutable: bool = True
    follow: bool = False


@dataclass(frozen=True)
class CopySettings:
    """``address`` and ``port``: where the source reaches the target's sshd. ``bwlimit_mib``: MiB a second over all
    streams. ``source_address``: what the target sees the source come from (IP address or a pattern of sshd(8)); None:
    what the source's own routing says. ``key_hours``: after that time the target's sshd takes the key no more.
    ``stall_seconds``: a connection over which nothing came for so long is given up. ``tries`` in a row that fail end
    the copy. ``through_controller``: there is no way from source to target."""

    address: str
    port: int = 22
    bwlimit_mib: float | None = None
    streams: int = 4
    source_address: str | None = None
    key_hours: int = 72
    stall_seconds: int = 60
    tries: int = 12
    through_controller: bool = False


@dataclass(frozen=True)
class Place:
    """Where a folder lies: a path of the machine, or one inside ``container``, which no mount of the machine shows.
    ``follow``: links count as what they show."""

    path: str
    container: str | None = None
    follow: bool = False

    @property
    def name(self) -> str:
        return posixpath.basename(self.path)

    @property
    def parent(self) -> str:
        return posixpath.dirname(self.path)

    def incoming(self, run: str) -> str:
        """The folder on the same file system that a run gathers in."""
        return f"{self.parent.rstrip('/')}/.incoming/{run}"

    def staging(self, run: str) -> str:
        return f"{self.incoming(run)}/{self.name}"


@dataclass(frozen=True)
class Sizes:
    """``size``: bytes as the files say; ``allocated``: bytes on the disk (less where files are sparse); ``files`` and
    ``inodes``: a hard link counts once; ``left_out``: sockets, pipes and devices, which are not copied."""

    size: int
    allocated: int
    files: int
    inodes: int
    left_out: tuple[str, ...] = ()


_UNITS = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))


@dataclass(frozen=True)
class Progress:
    """``rate``: bytes a second, lately; ``eta``: seconds; None: not known yet. ``state``: one of ``none``, ``copying``,
    ``waiting`` (a try failed, the next one comes), ``checking`` (all bytes are there, checksums are taken), ``done``,
    ``failed``. ``attempt`` counts from 1; ``why`` is what the last failed try said."""

    bytes_done: int
    bytes_total: int
    rate: float | None
    eta: float | None
    state: str
    attempt: int = 0
    why: str = ""

    @property
    def line(self) -> str:
        share = 100 * self.bytes_done // self.bytes_total if self.bytes_total else 100
        unit, size = next(((name, size) for name, size in _UNITS if self.bytes_total >= size), ("bytes", 1))
        digits = 2 if size > 1 else 0
        text = (
            f"{self.bytes_done / size:.{digits}f} of {self.bytes_total / size:.{digits}f} {unit} ({share} %)"
        )
        if self.rate is not None and self.state == "copying":
            text += f", {self.rate / 2**20:.0f} MiB/s"
        if self.eta is not None and self.state == "copying":
            text += f", {_time(self.eta)} left"
        if self.state != "copying":
            text += f", {self.state}"
        if self.attempt > 1:
            text += f", try {self.attempt}"
        if self.why and self.state in ("waiting", "failed"):
            text += f": {self.why}"
        return text


def _time(seconds: float) -> str:
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    return f"{whole // 60} min" if whole < 7200 else f"{whole / 3600:.1f} h"


def places(folders: tuple[Folder, ...], paths: list[Place]) -> list[str]:
    """What cannot be: two folders that would be gathered or put at one place, or one inside the other."""
    wrong = []
    for index, (folder, place) in enumerate(zip(folders, paths, strict=True)):
        if place.name in ("", ".", "..", ".incoming") or place.parent == "":
            wrong.append(f"{folder.target_path} is no folder that can be put in place in one step")
        for other in paths[:index]:
            first, second = place.path.rstrip("/") + "/", other.path.rstrip("/") + "/"
            if place.container == other.container and (first.startswith(second) or second.startswith(first)):
                wrong.append(f"{place.path} and {other.path}: one lies in the other")
    return wrong
