"""Which stream sends which file. Pure."""

from __future__ import annotations

import heapq

from provision.migrate.copy.listing import Entry, Listing

LEAST = 16 * 2**20
"""Bytes: smaller files are left to the last pass, which sends them one after another without waiting."""


def split(entries: Listing, streams: int) -> list[list[str]]:
    """Large files over at most ``streams`` lists, about as many bytes in each, the largest first. A file with several
    names is sent under one. With one stream there is nothing to split."""
    large: dict[str, Entry] = {}
    for entry in entries.values():
        if entry.kind == "f" and entry.size >= LEAST:
            large.setdefault(entry.inode, entry)
    if streams < 2 or len(large) < 2:
        return []
    lists: list[list[str]] = [[] for _ in range(min(streams, len(large)))]
    heap = [(0, number) for number in range(len(lists))]
    for entry in sorted(large.values(), key=lambda entry: (-entry.size, entry.path)):
        taken, number = heapq.heappop(heap)
        lists[number].append(entry.path)
        heapq.heappush(heap, (taken + entry.size, number))
    return lists
