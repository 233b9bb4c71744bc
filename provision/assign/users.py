"""Who has a GPU open: our own containers, services of the machine that hold it for nobody, or somebody else. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from checks.bdf import Bdf
from checks.snapshot import Snapshot
from provision.host import boot, users, view
from provision.host.boot import Opener
from provision.spec import Guest


def foreign(snapshot: Snapshot, bdf: Bdf, resting: Iterable[Guest]) -> tuple[str, ...]:
    """Those who have the GPU's own node open and are stopped by nobody but who started them, in words; ``resting`` are
    the guests that are stopped before. Raises CouldNotLook when it was not looked at."""
    openers = boot.openers(snapshot)
    minor = view.minors(snapshot).get(bdf)
    if minor is None:
        return ()
    groups = users.owners(snapshot)
    ours = {str(guest.id) for guest in resting}
    found = []
    for opener in openers:
        if opener.target == f"/dev/nvidia{minor}" and not _is_stopped(groups.get(opener.pid, ""), ours):
            found.append(_words(opener, users.container_of(groups.get(opener.pid, ""))))
    return tuple(dict.fromkeys(found))


def _is_stopped(group: str, ours: set[str]) -> bool:
    return users.container_of(group) in ours or users.daemon_of(group) is not None


def _words(opener: Opener, container: str | None) -> str:
    return f"{opener}{f' in container {container}' if container else ''} has {opener.target} open"
