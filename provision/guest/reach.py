"""Can the ids of an unprivileged container reach and use the machine's folders that are mounted into it? Pure.

LXC mounts as the container's root, who is nobody on the machine: each folder on the way needs ``x`` for others, a
folder that is read needs ``r-x`` for them, and one that is written must belong to the container's own ids.
"""

from __future__ import annotations

import posixpath

from checks.snapshot import CouldNotLook, Snapshot
from provision.guest.idmap import Ids, is_mapped
from provision.guest.mounts import mounts
from provision.plan import Refusal
from provision.spec import Guest, Machine, Mount

UID = 8100
"""The user that services run as, in every guest."""


def requests(machine: Machine, guest: Guest) -> list[str]:
    """What the snapshot of the machine has to look at for this guest."""
    if not is_mapped(guest):
        return []
    given = mounts(machine, guest)
    return [f"stat:{folder}" for mount in given for folder in (*_above(mount.source), mount.source)]


def unreachable(machine: Machine, guest: Guest, ids: Ids, snapshot: Snapshot, where: str) -> list[Refusal]:
    """A refusal for each folder that the container could not reach or use. A folder that is missing is refused
    elsewhere, or made."""
    found = []
    code, output = snapshot.command("lxc-path-mode")
    if code != 0 or not output.strip().isdecimal():
        raise CouldNotLook(f"the mode of LXC's folder cannot be read: {output.strip()[:200]}")
    if not int(output.strip(), 8) & 0o001:
        found.append(
            Refusal(
                f"{where}.unprivileged",
                f"LXC's folder has mode {output.strip()}",
                "the container's root is nobody on the machine and could not reach its own files",
                'chmod o+x "$(lxc-config lxc.lxcpath)"',
            )
        )
    for mount in mounts(machine, guest):
        at = (
            f"{where}.mounts[{guest.mounts.index(mount)}].source"
            if mount in guest.mounts
            else "machine.models"
        )
        found += _mount(mount, ids, snapshot, at)
    return found


def _mount(mount: Mount, ids: Ids, snapshot: Snapshot, where: str) -> list[Refusal]:
    closed = [
        folder
        for folder in _above(mount.source)
        if (status := _status(snapshot, folder)) is not None and not status[0] & 0o001
    ]
    if closed:
        return [
            Refusal(
                where,
                f"{', '.join(closed)} cannot be passed by others",
                "the container's root is nobody on the machine, so the container would not start",
                f"chmod o+x {' '.join(closed)}, or move the folder",
            )
        ]
    status = _status(snapshot, mount.source)
    if status is None:
        return []
    mode, uid, gid = status
    own, group = ids.first <= uid < ids.end, ids.first <= gid < ids.end
    if not (mode & 0o005 == 0o005 or (own and mode & 0o500 == 0o500) or (group and mode & 0o050 == 0o050)):
        return [
            Refusal(
                where,
                f"{mount.source} has mode {mode:o} and belongs to {uid}:{gid}",
                f"the container's ids are {ids} on the machine, and none of them could read it",
                f"chmod o+rx {mount.source}",
            )
        ]
    writable = mode & 0o002 or (own and mode & 0o200) or (group and mode & 0o020)
    if not mount.read_only and not writable:
        owner = ids.first + UID
        return [
            Refusal(
                where,
                f"{mount.source} has mode {mode:o} and belongs to {uid}:{gid}",
                f"the container's ids are {ids} on the machine, and none of them could write there",
                f"chown {owner}:{owner} {mount.source} (that is kpro in the container), or set read_only=True",
            )
        ]
    return []


def _above(path: str) -> list[str]:
    """The folders on the way to it, from below the root."""
    found = []
    while (path := posixpath.dirname(path)) not in ("/", ""):
        found.append(path)
    return found[::-1]


def _status(snapshot: Snapshot, path: str) -> tuple[int, int, int] | None:
    """Mode, user id and group id; None when it is not there."""
    data = snapshot.data("stat", path)
    words = (data or b"").split()
    if data is None or len(words) < 3:
        return None
    return int(words[0], 8), int(words[1]), int(words[2])
