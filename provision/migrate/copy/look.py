"""Before a copy: how much there is, and whether the source reaches the target. Read-only."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from provision.migrate.copy import ends, hashing, key
from provision.migrate.copy.listing import Listing, NotRead, listing, sizes
from provision.migrate.copy.model import CopySettings, Folder, Place, Sizes
from provision.migrate.sides import Side


def entries(side: Side, place: Place, path: str) -> Listing:
    """What lies in a folder of the source. Raises CopyFailed."""
    done = ends.run(side, hashing.look(place), f"listing {path}", timeout=600)
    try:
        return listing(done.stdout)
    except NotRead as error:
        raise ends.unreadable(side, f"listing {path}", error) from error


def measure(source: Side, folders: Sequence[Folder]) -> Sizes:
    """What the target needs room for, all folders together. Raises CopyFailed with the folder that cannot be read."""
    found = [
        sizes(entries(source, ends.source_place(source, folder), folder.source_path)) for folder in folders
    ]
    return Sizes(
        size=sum(each.size for each in found),
        allocated=sum(each.allocated for each in found),
        files=sum(each.files for each in found),
        inodes=sum(each.inodes for each in found),
        left_out=tuple(
            f"{folder.source_path}/{name}"
            for folder, each in zip(folders, found, strict=True)
            for name in each.left_out
        ),
    )


def host_keys(target: Side) -> str:
    """The target's public host keys, a line each, over the controller's own connection. Raises CopyFailed."""
    return ends.run(target, key.HOST_KEYS, "reading the host keys of sshd").text


def reach(source: Side, target: Side, settings: CopySettings) -> str | None:
    """None: at the address of the copy the target itself answers the source. Else what was seen instead.

    Raises CopyFailed when it cannot be asked at all.
    """
    address = shlex.quote(settings.address)
    # A busy machine was seen to take more than ten seconds for a key exchange; one that refuses answers at once.
    done = source.host(
        "command -v ssh-keyscan >/dev/null || { echo 'there is no ssh-keyscan' >&2; exit 9; }\n"
        f"ssh-keyscan -T 30 -p {settings.port} -- {address} 2>/dev/null | cut -d' ' -f2,3\n",
        timeout=120,
    )
    where = f"{settings.address} port {settings.port}"
    if not done.ok:
        return f"{source.name} cannot ask {where}: {done.error_text or f'exit {done.rc}'}"
    answered = {tuple(line.split()[:2]) for line in done.text.splitlines() if len(line.split()) >= 2}
    if not answered:
        return f"no sshd answers {source.name} at {where}"
    known = {tuple(line.split()[:2]) for line in host_keys(target).splitlines() if len(line.split()) >= 2}
    if not answered & known:
        return f"what answers {source.name} at {where} is another machine than {target.name}: it has other host keys"
    return None
