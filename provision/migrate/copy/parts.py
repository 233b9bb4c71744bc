"""The folders of one copy, with where each lies on both sides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from provision.migrate.copy import ends
from provision.migrate.copy.model import CopyFailed, Folder, Place, places
from provision.migrate.sides import Side

Say = Callable[[str], None]


@dataclass(frozen=True)
class Part:
    """One folder of the copy. ``key``: the number of the key that may write beside its place."""

    number: int
    folder: Folder
    source: Place
    target: Place
    key: int


def parts(source: Side, target: Side, folders: tuple[Folder, ...]) -> tuple[Part, ...]:
    """Raises CopyFailed with all folders that cannot be put in place one by one."""
    targets = [ends.target_place(target, folder) for folder in folders]
    if wrong := places(folders, targets):
        raise CopyFailed("; ".join(wrong), "each folder is put in place by itself", "correct the inventory")
    beside = list(dict.fromkeys((at.parent, at.container) for at in targets))
    return tuple(
        Part(number, folder, ends.source_place(source, folder), at, beside.index((at.parent, at.container)))
        for number, (folder, at) in enumerate(zip(folders, targets, strict=True))
    )


def with_keys(all_parts: tuple[Part, ...]) -> list[Part]:
    """For each key, the first part that needs it."""
    first: dict[int, Part] = {}
    for part in all_parts:
        first.setdefault(part.key, part)
    return [first[number] for number in sorted(first)]
