"""Is the copy what was copied? Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from provision.migrate.copy.listing import Entry, Listing, shown

COPIED = ("f", "d", "l")


@dataclass(frozen=True)
class Difference:
    """``again``: the file must be sent once more although size and time agree. ``content``: it is what the files hold
    that differs, not what they are called, whose they are or when they were written."""

    path: str
    text: str
    again: bool = False
    content: bool = True


Owners = Callable[[int, int], tuple[int, int]]
"""User and group id on the source to those that the target's file must have."""


def differences(
    source: Listing,
    source_sums: Mapping[str, str],
    target: Listing,
    target_sums: Mapping[str, str],
    owners: Owners,
) -> list[Difference]:
    """Every entry that is missing, too many or another. Empty: equal."""
    wanted = {path: entry for path, entry in source.items() if entry.kind in COPIED}
    found = [Difference(path, f"{shown(path)} is missing") for path in wanted.keys() - target.keys()]
    found += [Difference(path, f"{shown(path)} is too many") for path in target.keys() - wanted.keys()]
    for path in wanted.keys() & target.keys():
        found += _entry(wanted[path], target[path], source_sums.get(path), target_sums.get(path), owners)
    groups = {min(group) for group in _linked(wanted) ^ _linked(target)}
    told = {difference.path for difference in found}
    found += [
        Difference(path, f"{shown(path)} is one file under several names on one side only", content=False)
        for path in groups - told
    ]
    return sorted(found, key=lambda difference: difference.path)


def _entry(
    source: Entry, target: Entry, source_sum: str | None, target_sum: str | None, owners: Owners
) -> list[Difference]:
    path, name = source.path, shown(source.path)
    if source.kind != target.kind:
        return [Difference(path, f"{name} is of type {target.kind} instead of {source.kind}")]
    if source.kind == "l":
        same = source.link == target.link
        found = [] if same else [Difference(path, f"{name} leads elsewhere")]
    elif source.kind == "f" and source.size != target.size:
        found = [Difference(path, f"{name} has {target.size} bytes instead of {source.size}", again=True)]
    elif source.kind == "f" and (source_sum is None or source_sum != target_sum):
        text = "has another content" if source_sum and target_sum else "has no checksum"
        found = [Difference(path, f"{name} {text}", again=True)]
    else:
        found = []
    if source.kind != "l" and source.mode != target.mode:
        found.append(
            Difference(path, f"{name} has mode {target.mode} instead of {source.mode}", content=False)
        )
    user, group = owners(source.uid, source.gid)
    if (target.uid, target.gid) != (user, group):
        text = f"{name} belongs to {target.uid}:{target.gid} instead of {user}:{group}"
        found.append(Difference(path, text, content=False))
    # Some file systems keep whole seconds only.
    if source.kind == "f" and not found and source.modified.split(".")[0] != target.modified.split(".")[0]:
        found.append(Difference(path, f"{name} has another time", again=True, content=False))
    return found


def _linked(entries: Listing) -> set[frozenset[str]]:
    """Names that are one file, as groups of two and more."""
    groups: defaultdict[str, set[str]] = defaultdict(set)
    for entry in entries.values():
        if entry.kind == "f" and entry.links > 1:
            groups[entry.inode].add(entry.path)
    return {frozenset(group) for group in groups.values() if len(group) > 1}
