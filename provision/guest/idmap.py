"""Which user and group ids of the machine an unprivileged container's own ids are. Pure.

Each container has a range of its own, so that none can reach another's files. LXC asks newuidmap where that is there,
and newuidmap grants root only what /etc/subuid and /etc/subgid give it (subuid(5): ``login:first:count``); a range that
stands there is also never handed to a new user by useradd.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from checks.snapshot import CouldNotLook, Snapshot
from provision.plan import Refusal
from provision.spec import Guest, Machine

SUBUID, SUBGID = "/etc/subuid", "/etc/subgid"
COUNT = 65536
"""Ids of one container: all that 16 bits can name, nobody (65534) among them."""
FIRST = 100_000
"""Where useradd begins as well (SUB_UID_MIN of login.defs(5))."""
END = 0xFFFF_FFFF
"""No range reaches it: as a user id it means "unchanged" (chown(2))."""

REQUESTS = (
    f"file:{SUBUID}",
    f"file:{SUBGID}",
    "file:/etc/passwd",
    "file:/etc/group",
    "tool:lxc-usernsexec",
    'cmd:lxc-path-mode:stat -c %a "$(lxc-config lxc.lxcpath)"',
    "cmd:lxc-idmaps:"
    'c=$(lxc-config lxc.lxcpath) || exit 1; for f in "$c"/*/config; do [ -e "$f" ] || continue; n=${f%/config}; '
    'sed -n "s|^[[:space:]]*lxc[.]idmap[[:space:]]*=|${n##*/} |p" "$f" || exit 1; done',
)


@dataclass(frozen=True)
class Ids:
    """``count`` ids from ``first`` on, of users and of groups alike."""

    first: int
    count: int = COUNT

    @property
    def end(self) -> int:
        return self.first + self.count

    @property
    def line(self) -> str:
        """What gives them to root, without its end of line."""
        return f"root:{self.first}:{self.count}"

    def overlaps(self, other: Ids) -> bool:
        return self.first < other.end and other.first < self.end

    def holds(self, other: Ids) -> bool:
        return self.first <= other.first and other.end <= self.end

    def __str__(self) -> str:
        return f"{self.first}-{self.end - 1}"


@dataclass(frozen=True)
class Mapped:
    """A container's ids; ``missing``: the files that do not give them to root yet."""

    ids: Ids
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class GrantIds:
    """What the act appends: one line to each of the files."""

    line: str
    files: tuple[str, ...]


@dataclass(frozen=True)
class _Row:
    owner: str
    ids: Ids


def is_mapped(guest: Guest) -> bool:
    return guest.backend == "lxc" and guest.unprivileged and guest.managed


def mapped(machine: Machine, guest: Guest, snapshot: Snapshot, refusals: list[Refusal], where: str) -> Mapped:
    """The guest's ids: those that it has, for its files belong to them; else the first that root has and nobody uses;
    else the first that nobody has. Raises CouldNotLook."""
    held = {path: _rows(snapshot, path) for path in (SUBUID, SUBGID)}
    theirs = [row for rows in held.values() for row in rows if row.owner not in ("root", "0")]
    maps = _containers(snapshot)
    planned: list[Ids] = []
    for other in machine.guests:
        if not is_mapped(other):
            continue
        used = [ids for name, all_of in maps.items() if name != other.id for ids in all_of] + planned
        ids = _own(maps.get(other.id, []))
        if ids is None:
            ids = _free(held, theirs, used, _people(snapshot))
        elif other is guest:
            refusals += _clashes(ids, theirs, where)
        planned.append(ids)
        if other is guest:
            missing = tuple(
                path
                for path, rows in held.items()
                if not any(row.owner in ("root", "0") and row.ids.holds(ids) for row in rows)
            )
            return Mapped(ids, missing)
    raise ValueError(f"{guest.name} is no unprivileged guest of {machine.name}")


def _own(ranges: Iterable[Ids]) -> Ids | None:
    """The range of a container that is there: one, for users and groups alike."""
    found = set(ranges)
    if not found:
        return None
    if len(found) > 1 or next(iter(found)).count != COUNT:
        # Not a form that kpro writes: that the container is not its own is found elsewhere.
        return None
    return found.pop()


def _free(
    held: dict[str, list[_Row]], theirs: Iterable[_Row], used: Iterable[Ids], people: Iterable[int]
) -> Ids:
    taken = [*(row.ids for row in theirs), *used, *(Ids(number, 1) for number in people)]
    roots = {path: [row.ids for row in rows if row.owner in ("root", "0")] for path, rows in held.items()}
    for block in sorted(roots[SUBUID], key=lambda ids: ids.first):
        for first in range(block.first, block.end - COUNT + 1, COUNT):
            ids = Ids(first)
            if any(other.holds(ids) for other in roots[SUBGID]) and not any(map(ids.overlaps, taken)):
                return ids
    taken += [ids for ranges in roots.values() for ids in ranges]
    for first in range(FIRST, END - COUNT, COUNT):
        if not any(map(Ids(first).overlaps, taken)):
            return Ids(first)
    raise CouldNotLook(f"{SUBUID} and {SUBGID} leave no {COUNT} ids that nobody has")


def _clashes(ids: Ids, theirs: Iterable[_Row], where: str) -> list[Refusal]:
    owners = sorted({row.owner for row in theirs if row.ids.overlaps(ids)})
    if not owners:
        return []
    return [
        Refusal(
            f"{where}.unprivileged",
            f"the container's ids {ids} are also {', '.join(owners)}'s in {SUBUID} or {SUBGID}",
            "that user could read and change the container's files",
            f"give {', '.join(owners)} another range, or remove the container and let kpro make it anew",
        )
    ]


def _rows(snapshot: Snapshot, path: str) -> list[_Row]:
    """Lines that shadow's own programs understand; they skip all others."""
    rows = []
    for line in (snapshot.text(path) or "").splitlines():
        found = re.fullmatch(r"([^:]+):(\d+):(\d+)", line.strip())
        if found and int(found[3]):
            rows.append(_Row(found[1], Ids(int(found[2]), int(found[3]))))
    return rows


def _people(snapshot: Snapshot) -> list[int]:
    """Ids of the machine's own users and groups that lie where ranges do."""
    found = []
    for path in ("/etc/passwd", "/etc/group"):
        for line in (snapshot.text(path) or "").splitlines():
            fields = line.split(":")
            numbers = fields[2:4] if path == "/etc/passwd" else fields[2:3]
            found += [int(number) for number in numbers if number.isdecimal() and int(number) >= FIRST]
    return found


def _containers(snapshot: Snapshot) -> dict[str, list[Ids]]:
    """The machine's side of every container's maps, by the container's name. Raises CouldNotLook."""
    code, output = snapshot.command("lxc-idmaps")
    if code != 0:
        raise CouldNotLook(f"the id maps of the containers cannot be read: {output.strip()[:200]}")
    found: dict[str, list[Ids]] = {}
    for line in output.splitlines():
        words = line.split()
        if len(words) < 2:
            continue
        if len(words) != 5 or not (words[3].isdecimal() and words[4].isdecimal()):
            raise CouldNotLook(f"container {words[0]} has an id map that is none: {line.strip()!r}")
        found.setdefault(words[0], []).append(Ids(int(words[3]), int(words[4])))
    return found
